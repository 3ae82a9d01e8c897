"""Logs: find their files, read them once in batches of whole pages, and check every row."""
