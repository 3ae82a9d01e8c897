"""What the search for a page is made of: its scratch, its threshold, the order of what ties."""
