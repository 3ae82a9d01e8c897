"""Links whose feedback comes some rounds after the page view.

Experiments use it through `slotwise.environments`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slotwise.arrays import Floats
from slotwise.environments.environment import Environment, VisitorRates
from slotwise.errors import InvalidInput


class LateFeedback(Environment):
    """Links whose clicks and later levels become known some rounds after the page view.

    With a `spread` above 0 the delays of page views differ: each is drawn evenly from those that
    are shorter and longer by at most this share.

    >>> from slotwise.environments import BernoulliLinks
    >>> late = LateFeedback(BernoulliLinks([0.2], [0.5]), click_delay=10, revenue_delay=500)
    >>> late.delays
    (10, 500)
    """

    def __init__(
        self, links: Environment, click_delay: int, revenue_delay: int, spread: float = 0.0
    ) -> None:
        for name, delay in (("click_delay", click_delay), ("revenue_delay", revenue_delay)):
            if delay < 0:
                raise InvalidInput.of(name, "at least 0", delay)
        if not 0.0 <= spread <= 1.0:
            raise InvalidInput.of("spread", "a share from 0 to 1", spread)
        self.delay_spread = float(spread)
        self.links = links
        self.levels = links.levels
        self.views_per_round = links.views_per_round
        self.features = links.features
        self.slot_weights = links.slot_weights
        self.delays = (click_delay, *(revenue_delay for _ in links.levels[1:]))

    @property
    def serving(self) -> Callable[..., None]:
        """The function that serves the wrapped links."""
        return self.links.serving

    @property
    def arriving(self) -> Callable[..., None]:
        """The function that writes the visitors of the wrapped links."""
        return self.links.arriving

    @property
    def n_links(self) -> int:
        """How many links there are."""
        return self.links.n_links

    def world(self, n_rounds: int) -> Any:
        """Return the world of the wrapped links."""
        return self.links.world(n_rounds)

    def rates(self, n_rounds: int) -> Floats:
        """Return the rates of the wrapped links."""
        return self.links.rates(n_rounds)

    def visitor_rates(self, n_rounds: int) -> VisitorRates:
        """Return the visitor rates of the wrapped links."""
        return self.links.visitor_rates(n_rounds)
