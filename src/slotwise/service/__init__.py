"""The decision service: choose the links of each page view and count its feedback durably.

`server` runs it, `api` answers HTTP through `http`, `service` composes what handlers call:
`deciding` draws pages of the installed versions, `learning` makes the next versions from closed
windows, `storage` makes acknowledged data durable, `counting` defines what counts, and `reporting`
reports on pools. It never simulates: it may import `evaluation`, `player` and the layers below.
"""
