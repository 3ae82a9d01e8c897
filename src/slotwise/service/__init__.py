"""The decision service: which links for this page view, counted durably, with the floor kept.

`server` runs it, `api` answers HTTP through `http`, `service` composes what handlers call:
`deciding` draws pages of the installed versions, `learning` makes the next versions from closed
windows, `storage` keeps what was acknowledged, `counting` says what counts, and `reporting` reports
on pools. It never simulates: it may import `evaluation`, `player` and what is below.
"""
