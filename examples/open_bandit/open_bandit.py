"""Two logs of one shop: what the random one says about the policy of the other.

The Open Bandit data set has, for three campaigns, a log of random pages and a log of Bernoulli
Thompson sampling (BTS). The click rate of BTS, estimated from the random log alone, stands beside
the click rate in its own log. Run it with the directory of the unpacked data set:

    python examples/open_bandit/open_bandit.py obd

The 10,000-row samples lie in the source archive of obp 0.5.7, under obp/dataset/obd.
"""

from __future__ import annotations

import sys
from pathlib import Path

from other_logs import CAMPAIGNS, open_bandit_log, shown_mix

from slotwise.evaluation import Estimate, evaluate


def interval(estimate: Estimate) -> str:
    """Return an estimate in per cent."""
    return f"{estimate.value:7.2%} ({estimate.low:.2%} to {estimate.high:.2%})"


def main(directory: Path) -> None:
    """Print both click rates of BTS for every campaign, then a question the log cannot answer."""
    print(f"{'campaign':9}{'BTS, from the random log':>30}{'BTS, from its own log':>30}  worth")
    for campaign in CAMPAIGNS:
        bts = shown_mix(open_bandit_log(directory, "bts", campaign), ["position"])
        answer = evaluate(open_bandit_log(directory, "random", campaign), bts)
        own = evaluate(open_bandit_log(directory, "bts", campaign), bts).logged_clicks
        size = answer.effective_sample_size
        print(f"{campaign:9}{interval(answer.clicks):>30}{interval(own):>30}  {size:,.0f} views")
    print()
    for campaign in CAMPAIGNS:
        rare = shown_mix(open_bandit_log(directory, "random", campaign), ["position"])
        answer = evaluate(open_bandit_log(directory, "bts", campaign), rare)
        print(
            f"random pages of {campaign!r} from the log of BTS: {interval(answer.clicks)}, "
            f"largest weight {answer.max_weight:,.0f}. {answer.cannot_tell}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
