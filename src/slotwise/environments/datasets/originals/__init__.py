"""Originals: loaders of the files that the paper used, and of tables of your own."""
