"""Authorization: keys and their scopes, sessions, and the signed tokens of click links.

May import only the service's records.
"""
