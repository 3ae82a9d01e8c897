"""Estimating: sums over pages, the estimators made of them, and their intervals."""
