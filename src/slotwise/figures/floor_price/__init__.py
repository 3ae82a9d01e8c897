"""The price of the floor, from rates or from a log, and answers from a log."""
