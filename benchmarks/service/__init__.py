"""How fast the service is, as ratios measured in one run."""
