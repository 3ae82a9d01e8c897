"""The decision service: which links for this page view, counted durably, with the floor kept."""
