from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import peers
from benchmarks.peers import PEERS, Peer, Shop, play, report, reported_shops, tuning_shops
from benchmarks.shops import segment_shop
from manual.benchmark_figures import DOCS, draw_peers

SMALL = Shop("8 links, 2 segments", segment_shop(8, 2, seed=3), 2)


def installed(peer: Peer) -> Peer:
    if not peer.is_installed():
        pytest.skip(f"no {peer.package}; pip install 'slotwise[compare]'")
    return peer


@pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])
def test_a_peer_shows_different_links_and_learns_which_earn(peer: Peer) -> None:
    player = installed(peer).make(SMALL, seed=1, **peer.settings)
    counts = np.zeros(SMALL.n_links)
    for view in range(600):
        shown = list(player.show(view % 2))
        assert len(set(shown)) == SMALL.n_slots
        assert set(shown) <= set(range(SMALL.n_links))
        sold = np.array([1.0 if link in (2, 5) else 0.0 for link in shown])
        player.learn(view % 2, shown, sold, sold)
        if view >= 300:
            counts[shown] += 1
    # Two links always sell and the others never do: a player that learns shows them most.
    assert set(np.argsort(-counts)[:2]) == {2, 5}


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer.grid], ids=lambda peer: peer.name)
def test_settings_of_a_peer_were_chosen_from_its_grid(peer: Peer) -> None:
    assert peer.settings in peer.grid


def test_settings_were_chosen_on_shops_that_are_not_reported() -> None:
    def rates(shop: Shop) -> bytes:
        return shop.links.visitor_rates(1).rates.tobytes()

    assert not {rates(shop) for shop in tuning_shops()} & {rates(shop) for shop in reported_shops()}


def test_a_page_of_the_best_links_of_every_visitor_has_the_whole_gain() -> None:
    revenue = SMALL.links.visitor_rates(1).rates[:, 1]

    class Best:
        def __init__(self, shop: Shop, seed: int, *, is_blind: bool) -> None:
            shares = shop.links.visitor_rates(1).shares
            worth = np.tile(shares @ revenue, (len(shares), 1)) if is_blind else revenue
            self.pages = np.argsort(-worth, axis=1)[:, : shop.n_slots].tolist()

        def show(self, kind: int) -> list[int]:
            return list(self.pages[kind])

        def learn(self, *_: object) -> None:
            pass

    best = Peer("best", "slotwise", Best, {})
    of_each, for_all = (play(best, {"is_blind": one}, SMALL, 500, 0) for one in (False, True))
    assert (of_each.share, of_each.revenue) == pytest.approx((1.0, 1.0))
    assert (for_all.share, for_all.revenue) == pytest.approx((0.0, of_each.blind))


def test_a_report_can_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(2, 60, [SMALL], [peer for peer in PEERS if peer.is_installed()])
    path = tmp_path / "peers.json"
    path.write_text(json.dumps(found))
    axes = draw_peers(path).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [SMALL.name]
    assert "± " in capsys.readouterr().out


def test_the_numbers_of_the_manual_are_those_of_the_settings() -> None:
    found = json.loads((DOCS / "peers.json").read_text())
    assert found["settings"] == {peer.name: dict(peer.settings) for peer in PEERS}
    assert {row["shop"] for row in found["rows"]} == {shop.name for shop in reported_shops()}
    text = (DOCS / "alternatives.md").read_text()
    assert found["command"] in text
    assert peers.as_table(found["rows"]) in text
