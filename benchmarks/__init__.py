"""How fast slotwise is: `python -m benchmarks`, ratios measured within one run."""

from pathlib import Path

from slotwise.plugins import look_for_modules_in

# Queue-TS, the policy in examples/, plays in the leaderboard and in other comparisons.
look_for_modules_in(str(Path(__file__).resolve().parent.parent / "examples" / "queue_ts"))
