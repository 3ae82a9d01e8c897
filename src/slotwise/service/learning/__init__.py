"""From closed windows to the next version: fold, replay, policy runs, open views, publishing.

May import `storage`, `counting`, versions and the service's records; never `deciding`.
"""
