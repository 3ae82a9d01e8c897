"""What a policy knows of its links: evidence, priors, posteriors, bounds, effects of visitors."""
