"""What counts: views, attribution of events to them, and the counters that sum them up.

Pure functions of stored events and a clock. It may import the service's records only; the stores
judge events by it, `verify` recounts by it, and learning folds by it.
"""
