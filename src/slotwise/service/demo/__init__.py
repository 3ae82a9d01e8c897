"""A small shop that shows the service at work.

May import every other room; no other room imports it.
"""
