"""Loops that are written in vectors by hand, each next to the same loop in plain Python."""
