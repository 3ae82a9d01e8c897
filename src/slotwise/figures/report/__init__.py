"""The report on the reproduced paper: its claims, the evidence and the verdicts."""
