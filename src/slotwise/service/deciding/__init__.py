"""A pool at run time, its published version, and one page drawn from it.

May import `storage`, `counting` and the service's records.
"""
