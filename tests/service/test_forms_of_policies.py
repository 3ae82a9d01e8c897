"""Which form of a policy plays in a service, and what a policy of another package is given."""

from __future__ import annotations

from typing import Any

import pytest

from slotwise import Selector
from slotwise.errors import InvalidInput
from slotwise.policies import POLICIES, PacedBayes, Policy
from slotwise.problem import Problem
from slotwise.service.records import SECOND_US
from tests.service.conftest import OpenService
from tests.service.rows import T0, arrays_of, learned_of, link, pool
from tests.service.sampling_policy import SamplingPolicy
from tests.service.test_visitors import LINKS, links_for, opened, visit
from tests.service.visitor_policy import FAILING, VisitorPolicy

MANY_LINKS = 20


class FormForLargePools(PacedBayes):
    """A form of a policy that has learned the same."""


def form_for(policy: PacedBayes, problem: Problem) -> Policy:
    return FormForLargePools() if problem.n_links > MANY_LINKS else policy


@pytest.fixture
def by_visitor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the policy, as if its package were installed."""
    monkeypatch.setitem(POLICIES, VisitorPolicy.name, VisitorPolicy)
    FAILING.clear()


@pytest.mark.usefixtures("by_visitor")
def test_a_policy_of_another_package_is_told_of_visitors(open_service: OpenService) -> None:
    service = opened(open_service(), policy="by-visitor")
    now_us = visit(service, 400, T0)
    assert [one.failure for one in service.health().pools] == [""]
    assert links_for(service, {"device": "phone"}, now_us) <= {"l0", "l1"}
    assert links_for(service, {"device": "desktop"}, now_us) <= {"l6", "l7"}
    page = service.decider.decide("home", now_us, visitor={"device": "phone"}, exclude=["l0"])
    assert "l0" not in {shown.link_id for shown in page.shown}
    assert not page.fallback
    known = arrays_of(service)
    service.flush().result()
    service.close()
    again = open_service()
    assert arrays_of(again) == known
    assert links_for(again, {"device": "phone"}, now_us) <= {"l0", "l1"}
    again.directory.put_links("home", [link("l8")], "test", now_us).result()
    assert again.health().pools[0].failure == ""
    assert links_for(again, {"device": "desktop"}, now_us) <= {"l6", "l7", "l8"}


@pytest.mark.usefixtures("by_visitor")
@pytest.mark.parametrize("n_levels", [0, 1, 7])
def test_rounds_at_which_a_policy_raises_are_learned_once(
    open_service: OpenService, n_levels: int
) -> None:
    service = opened(open_service(), policy="by-visitor")
    for _ in range(12):
        service.decider.decide("home", T0, visitor={"device": "phone", "country": "DE"})
    later_us = T0 + 61 * SECOND_US
    FAILING.append(n_levels)
    service.learner.learn(later_us)
    assert service.health().pools[0].failure == "ArithmeticError: cannot learn"
    FAILING.clear()
    service.learner.learn(later_us)
    assert service.health().pools[0].failure == ""
    assert learned_of(service).arrays["views"].sum() == 24
    fed: Any = service.publisher.runs["home"]._fed_player()
    (country,) = (one for one in fed.player.features.plain() if one["name"] == "country")
    assert country["counts"] == {"DE": 12}


@pytest.mark.parametrize("n_shown", [1, 5])
@pytest.mark.parametrize("policy", ["sampling", "by-visitor"])
def test_pages_that_a_policy_cannot_mean_are_never_shown(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch, policy: str, n_shown: int
) -> None:
    def choose(state: Any, *_: object) -> None:
        state.mix.sure[:n_shown] = range(n_shown)
        state.mix.sizes[:] = n_shown, 0, 0, 0

    for kind in (VisitorPolicy, SamplingPolicy):
        monkeypatch.setitem(POLICIES, kind.name, kind)
        monkeypatch.setattr(kind, "choose", staticmethod(choose))
    features = {"device": ["phone", "desktop"]} if policy == "by-visitor" else {}
    service = opened(open_service(), policy=policy, features=features)
    page = service.decider.decide("home", T0)
    assert page.fallback == ("learning-failed" if features else "policy-failed")
    assert len(page.shown) == 2


def test_a_large_pool_plays_the_form_for_large_pools(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PacedBayes, "for_problem", form_for)
    service = open_service()
    default = pool(policy="paced-bayes", policy_settings={})
    service.directory.put_pool(default, "test", T0).result()
    many = [link(f"l{k}") for k in range(MANY_LINKS + 1)]
    service.directory.put_links("home", many[:-1], "test", T0).result()
    assert not isinstance(learned_of(service).form, FormForLargePools)
    service.decider.decide("home", T0)
    service.learner.learn(T0 + 10**12)
    rounds = arrays_of(service)["rounds"]
    service.directory.put_links("home", many[-1:], "test", T0 + 10**12).result()
    assert isinstance(learned_of(service).form, FormForLargePools)
    assert arrays_of(service)["rounds"] == rounds == [1.0, 1.0]
    service.flush().result()
    service.close()
    again = open_service()
    assert isinstance(learned_of(again).form, FormForLargePools)
    assert again.health().pools[0].failure == ""


def test_a_selector_refuses_counts_for_a_policy_that_tells_visitors_apart() -> None:
    features = {"device": ["phone", "desktop"]}
    policy = VisitorPolicy()
    selector = Selector(LINKS, 2, policy=policy, features=features, slot_weights="learn", seed=1)
    page = selector.select(visitor={"device": "phone"})
    selector.update(page, clicks=page.shown, revenue={})
    assert len(selector.report().slots) == 2
    with pytest.raises(InvalidInput, match="`policy` must be a policy that learns from counts"):
        selector.update_batch({"l0": 1}, {"l0": 0}, {})
