"""What counts: views, attribution of events to them, counters, and the rates they give.

Pure functions of stored events and a clock. It may import the service's records only; the stores
judge events by it, `verify` recounts by it, and learning folds by it.
"""
