"""Who may call what: keys and their scopes, and the signed tokens of click links.

May import the service's records only.
"""
