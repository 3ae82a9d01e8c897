"""Counting: views, attribution of events to them, counters, and rates.

Pure functions of stored events and a clock. May import only the service's records. Stores judge
events with it, `verify` recounts with it, and learning folds with it.
"""
