"""Alerts: what is wrong with a pool, and a webhook that is told when it begins and ends.

Looks at the figures that the dashboard shows, in threads of its own; nothing waits for it.
"""
