"""From a version to one page: constraints, pages and their solutions, and the decider.

May import `storage`, `counting`, versions and the service's records; never `learning`.
"""
