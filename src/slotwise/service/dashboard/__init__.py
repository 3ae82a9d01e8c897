"""The page at `/`: how a pool is doing, in plain words and money."""
