"""From closed windows to the next version: fold, replay, policy runs, open views, publishing.

May import `storage`, `counting` and the service's records.
"""
