"""Candidates: mixes by hand, by segment and by slot, and the best mix at another floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput, MissingData
from slotwise.evaluation import BestMix, EvaluationSettings, LinkMix, evaluate, read_mix
from tests.evaluation.logs import as_file, random_log

pytestmark = pytest.mark.compiled


def test_a_mix_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("link,probability\nlink-1, 1\nlink-2,0.25\nlink-3,0.75\n")
    log = random_log()
    by_hand = LinkMix.of({"link-1": 1.0, "link-2": 0.25, "link-3": 0.75})
    assert evaluate([as_file(log)], read_mix(path)) == evaluate([as_file(log)], by_hand)


BAD_MIXES = [
    ("link,chance\na,1\n", "a mix must have the columns link and probability"),
    ("link,probability\na,1\na,1\n", "a link must have one probability, got two in row 3"),
    ("link,probability\na,much\n", "`probability` must be a number, got 'much' in row 2"),
    ("link,probability\na,1.2\nb,0.8\n", "`probability of a` must be from 0 to 1, got 1.2"),
    (
        "link,probability\na,0.5\nb,0.3\n",
        "must be the number of slots, a whole number such as 1, got 0.8",
    ),
    ("link,probability\n", "`mix` must be at least one link with its probability"),
    ("country,link,probability\nde,a,1\nfr,a,1\nfr,b,1\n", "of as many slots in every segment"),
    ("slot,country,link,probability\n1,de,a,1\n", "by slot or by features, not by both"),
    ("slot,link,probability\n1,a,1\n1,b,1\n", "probabilities that sum to 1 in every slot"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD_MIXES)
def test_a_bad_mix_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises((InvalidInput, MissingData), match=sentence):
        read_mix(path)
    with pytest.raises(MissingData, match="`mix` must be a CSV file that exists"):
        read_mix(tmp_path / "other.csv")


def segmented_log(n_pages: int = 3000) -> dict[str, list[Any]]:
    """One slot; visitors from de click link a, those from fr link b; even odds."""
    rng = np.random.default_rng(8)
    countries = rng.choice(["de", "fr"], n_pages)
    links = rng.choice(["a", "b"], n_pages)
    likes = np.where(countries == "de", "a", "b")
    clicked = rng.random(n_pages) < np.where(links == likes, 0.6, 0.1)
    return {
        "page_id": list(range(n_pages)),
        "time_us": list(range(n_pages)),
        "slot": [1] * n_pages,
        "link": links.tolist(),
        "probability": [0.5] * n_pages,
        "clicked": clicked.tolist(),
        "revenue": (0.5 * clicked).tolist(),
        "min_probability": [0.5] * n_pages,
        "visitor.country": countries.tolist(),
    }


def test_a_mix_by_segment_is_worth_what_the_segments_are(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("visitor.country,link,probability\nde,a,1\nfr,b,1\n")
    answer = evaluate([as_file(segmented_log())], read_mix(path))
    # standard error 0.009: five of them miss with a probability below 1e-6
    assert answer.clicks.value == pytest.approx(0.6, abs=0.06)
    assert answer.clicks.low < 0.6 < answer.clicks.high
    path.write_text("visitor.country,link,probability\nde,a,1\n")
    with pytest.raises(InvalidInput, match=r"given for every segment of the log, got 'country=fr'"):
        evaluate([as_file(segmented_log())], read_mix(path))


def test_the_best_mix_by_segment_beats_the_best_for_all() -> None:
    log = segmented_log()
    for_all = evaluate([as_file(log)], BestMix(0.0))
    by_country = evaluate([as_file(log)], BestMix(0.0, features=["country"]))
    assert for_all.revenue.high < 0.3 or for_all.revenue.value < 0.25
    assert by_country.revenue.low > for_all.revenue.value
    assert by_country.n_fitted >= 750
    assert sum(by_country.mix.values()) == pytest.approx(1)


def test_a_candidate_by_slot_uses_the_probability_of_the_slot(tmp_path: Path) -> None:
    """Two links in random order; the first slot is clicked three times as often."""
    rng = np.random.default_rng(9)
    n_pages = 4000
    first = rng.integers(0, 2, n_pages)
    links = np.stack([first, 1 - first], axis=1).ravel()
    slots = np.tile([1, 2], n_pages)
    rates = np.where(slots == 1, 0.6, 0.2) * np.where(links == 0, 1.0, 0.5)
    clicked = rng.random(2 * n_pages) < rates
    log = {
        "page_id": np.repeat(np.arange(n_pages), 2).tolist(),
        "time_us": np.repeat(np.arange(n_pages), 2).tolist(),
        "slot": slots.tolist(),
        "link": np.array(["good", "bad"])[links].tolist(),
        "probability": [1.0] * (2 * n_pages),
        "clicked": clicked.tolist(),
        "revenue": [0.0] * (2 * n_pages),
    }
    path = tmp_path / "mine.csv"
    path.write_text("slot,link,probability\n1,good,1\n2,bad,1\n")
    with pytest.raises(InvalidInput, match="the log has no column `slot_probability`"):
        evaluate([as_file(log)], read_mix(path))
    log["slot_probability"] = [0.5] * (2 * n_pages)
    answer = evaluate([as_file(log)], read_mix(path))
    # truth 0.6 + 0.1, standard error 0.017: six of them
    assert answer.clicks.value == pytest.approx(0.7, abs=0.1)
    assert answer.clicks.low < 0.7 < answer.clicks.high
    as_logged = evaluate(
        [as_file(log)], LinkMix.of({"good": 1.0, "bad": 1.0}), EvaluationSettings("ips")
    )
    assert as_logged.clicks.value == pytest.approx(np.sum(clicked) / n_pages)


@pytest.mark.slow
def test_the_best_mix_is_not_optimistic() -> None:
    """All links are alike, so that any mix chosen by its luck is worth the same 0.25 clicks.

    Estimates on the pages that chose the mix are far above; cross-fitted ones are not. The mean
    of 60 estimates has a standard error below 0.005: six of them.
    """
    rng = np.random.default_rng(10)
    n_links, n_pages = 20, 400
    fitted, naive = [], []
    for _ in range(60):
        links = rng.integers(0, n_links, n_pages)
        clicked = rng.random(n_pages) < 0.25
        log = {
            "page_id": list(range(n_pages)),
            "time_us": list(range(n_pages)),
            "slot": [1] * n_pages,
            "link": [f"link-{link}" for link in links],
            "probability": [1 / n_links] * n_pages,
            "clicked": clicked.tolist(),
            "revenue": clicked.astype(float).tolist(),
            "min_probability": [1 / n_links] * n_pages,
        }
        fitted.append(
            evaluate([as_file(log)], BestMix(0.0), EvaluationSettings("ips")).revenue.value
        )
        means = [clicked[links == link].mean() for link in range(n_links) if (links == link).any()]
        naive.append(max(means))
    assert np.mean(naive) > 0.4
    assert np.mean(fitted) == pytest.approx(0.25, abs=0.12)
    assert np.mean(fitted) < np.mean(naive) - 0.05


def test_a_floor_must_be_a_number() -> None:
    with pytest.raises(InvalidInput, match="`click_floor` must be a finite number"):
        BestMix(float("nan"))
