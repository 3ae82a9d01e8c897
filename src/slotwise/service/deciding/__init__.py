"""From a published version to one page: wishes, pages and their solutions, and the decider.

May import `storage`, `counting`, published versions and the service's records; never `learning`.
"""
