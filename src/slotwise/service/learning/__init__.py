"""Learning: fold closed windows, feed the policies, count open views and publish versions.

May import `storage`, `counting`, versions and the service's records; never `deciding`.
"""
