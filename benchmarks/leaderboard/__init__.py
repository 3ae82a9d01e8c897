"""The leaderboard: every policy on a suite of cases, ranked by a stated rule."""
