"""Builds the manual: what mkdocs adds to the pages of docs/ from the sources of truth."""
