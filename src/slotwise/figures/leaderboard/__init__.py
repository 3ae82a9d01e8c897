"""The leaderboard as pages and as the block of a README."""
