"""Loops that are written in vectors by hand, each beside the same in plain Python."""
