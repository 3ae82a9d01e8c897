"""From a published version to one page: constraints, pages and their solutions, and the decider.

May import `storage`, `counting`, published versions and the service's records; never `learning`.
"""
