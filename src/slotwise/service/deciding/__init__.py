"""Deciding: check the constraints of a page, solve it for a version and draw it.

May import `storage`, `counting`, versions and the service's records; never `learning`.
"""
