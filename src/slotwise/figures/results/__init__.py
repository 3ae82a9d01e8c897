"""Figures of one results file: its panels, sweeps, several floors, kinds of visitors."""
