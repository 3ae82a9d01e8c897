"""How fast slotwise is: `python -m benchmarks`, ratios measured within one run."""
