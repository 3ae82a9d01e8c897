"""The settings of an experiment in words: its data set, its floor, and what the paper has of it.

Used by `canvas`, `chosen_panels`, `claims`, `conclusion`, `experiment_figure`, `own_page_figure`,
`panels`, `report_contents`, `segment_figure`, `several_floors_figure`, `sweep_figure` and `cli`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slotwise import metrics
from slotwise.environments.datasets import DATASETS, Loader
from slotwise.errors import InvalidInput
from slotwise.figures import style
from slotwise.selection.confidence import paper_gamma
from slotwise.simulation.results import Results

NOT_IN_PAPER = "not in the paper"
"""The mark of a policy that runs next to the paper's four; a dagger where there is little room."""


NEEDED = (
    *("dataset", "n_links", "n_slots", "click_floor"),
    *("failure_probability", "n_rounds", "optimum"),
)
"""The settings of results without which there is no figure."""


def _name_of(policy: Mapping[str, Any], label: str) -> str:
    """Return the registered name of a policy from its settings, or else from its label."""
    return str(policy.get("name", label.partition("/")[0]))


def _marked(title: str, is_look_alike: bool) -> str:
    """Return a title that states whether the data are a look-alike."""
    is_unsaid = is_look_alike and "look-alike" not in title.lower()
    return f"{title} (look-alike)" if is_unsaid else title


@dataclass(frozen=True, eq=False)
class Setting:
    """The settings of one experiment that figures and reports show."""

    config: Mapping[str, Any]
    n_runs: int

    @classmethod
    def of(cls, results: Results) -> Setting:
        """Read the settings of `results`; the error for a missing one names it."""
        for key in NEEDED:
            if key not in results.config:
                rule = f"of results with the setting {key!r}, which figures show"
                raise InvalidInput.of("config", rule, sorted(results.config))
        return cls(results.config, results.n_runs)

    @property
    def name(self) -> str:
        """The short name of the data set, valid in file names."""
        return str(self.config["dataset"]["name"])

    @property
    def title(self) -> str:
        """The data set's title."""
        return str(self.config["dataset"].get("title") or self.name)

    @property
    def is_look_alike(self) -> bool:
        """Whether the data were drawn from a recipe to resemble the original."""
        return bool(self.config["dataset"].get("look_alike", False))

    @property
    def full_title(self) -> str:
        """The title, which states whether the data are a look-alike."""
        return _marked(self.title, self.is_look_alike)

    @property
    def figure_title(self) -> str:
        """The title of the experiment, or the data set's if the experiment has none."""
        return _marked(str(self.config.get("experiment") or self.title), self.is_look_alike)

    @property
    def data_sentence(self) -> str:
        """Where the links come from."""
        recipe = ", drawn from a recipe" if self.is_look_alike else ""
        return f"data: {self.full_title}{recipe}"

    @property
    def delay_sentence(self) -> str:
        """How late feedback is, by level; empty if it is immediate."""
        levels = zip(self.config.get("levels", ()), self.config.get("delays", ()), strict=False)
        late = [f"{level} by {style.readable(delay)}" for level, delay in levels if delay]
        return f"late feedback: {', '.join(late)} rounds" if late else ""

    @property
    def heading(self) -> str:
        """The full title with the floor, since one data set may be run with several floors."""
        title, floor = self.full_title, self._floors_in_words
        return f"{title[:-1]}, {floor})" if title.endswith(")") else f"{title} ({floor})"

    @property
    def short_heading(self) -> str:
        """The data set's name with the floor, for sentences that name many."""
        return f"{self.name} ({self._floors_in_words})"

    @property
    def original(self) -> str:
        """The name of the loader whose files the data set is, or resembles."""
        return str(self.config["dataset"].get("original", self.name))

    @property
    def has_papers_floor(self) -> bool:
        """Whether the floor is the paper's, or stands for it where no page reaches that."""
        entry = DATASETS.get(self.original)
        if not isinstance(entry, Loader) or entry.page is None:
            return False
        floor = self.config["dataset"].get("instead_of_floor", self.config["click_floor"])
        return bool(floor == entry.page.click_floor)

    @property
    def optimum(self) -> float:
        """The best revenue per round that keeps the floor."""
        return float(self.config["optimum"]["value"])

    @property
    def is_floor_infeasible(self) -> bool:
        """Whether no page has as many clicks as the floor requires."""
        return bool(self.config["optimum"].get("status") == "infeasible")

    @property
    def floor_names(self) -> tuple[str, ...]:
        """The floors beyond a click floor alone: levels, and rates such as "cart/click"."""
        return tuple(self.config["optimum"].get("shadow_prices", ()))

    def floor_in_words(self, name: str) -> str:
        """Return a floor as text: "cart 1", or "cart/click 0.2" for a rate."""
        level = name.partition("/")[0]
        floor = self.config["rate_floors"][level] if "/" in name else self.config["floors"][level]
        return f"{name} {style.readable(floor)}"

    @property
    def _floors_in_words(self) -> str:
        named = ", ".join(map(self.floor_in_words, self.floor_names))
        return named or f"h = {style.readable(self.config['click_floor'])}"

    def _several_floors_sentence(self) -> str:
        optimum, floors = self.config["optimum"], f"floors {self._floors_in_words}"
        if optimum["status"] == "infeasible":
            part = f"{100 * optimum['largest_shortfall']:.3g} %"
            return f"{floors}, infeasible: {part} is the largest relative shortfall"
        if optimum["status"] == "slack":
            return f"{floors}, slack: the best page keeps them"
        priced = [
            f"{name} at {style.readable(price)}"
            for name, price in optimum["shadow_prices"].items()
            if price
        ]
        return f"{floors}, binding: {', '.join(priced)} of revenue for one more"

    @property
    def floor_sentence(self) -> str:
        """The floor, and whether it is slack, binding or infeasible."""
        if self.floor_names:
            return self._several_floors_sentence()
        optimum = self.config["optimum"]
        floor = f"floor {style.readable(self.config['click_floor'])} clicks"
        status = optimum.get("status", "")
        if status == "binding":
            return (
                f"{floor}, binding at a shadow price of {style.readable(optimum['shadow_price'])}"
            )
        if status == "slack":
            return f"{floor}, slack: the best page has {style.readable(optimum['clicks'])}"
        if status == "infeasible":
            attainable = style.readable(optimum["attainable_clicks"])
            return f"{floor}, infeasible: at most {attainable}; compared with the most clicked page"
        return floor

    @property
    def size_sentence(self) -> str:
        """The size of the experiment."""
        runs = "one run" if self.n_runs == 1 else f"{self.n_runs} runs"
        return (
            f"{self.config['n_links']} links, {self.config['n_slots']} slots, "
            f"{style.readable(self.config['n_rounds'])} rounds, {runs}"
        )

    @property
    def origin_sentence(self) -> str:
        """What made the numbers: runs, seed, version, and the commit where it is known."""
        parts = [f"{self.n_runs} run{'s' if self.n_runs != 1 else ''}"]
        for key, word in {"seed": "seed", "version": "slotwise", "commit": "commit"}.items():
            if self.config.get(key) is not None:
                parts.append(f"{word} {self.config[key]}")
        return "  ·  ".join(parts)

    @property
    def theorem_bound(self) -> float:
        """The theorem's bound on regret and shortfall at the printed γ."""
        return metrics.theorem_bound(
            self.config["n_links"],
            self.config["n_slots"],
            self.config["n_rounds"],
            self.config["failure_probability"],
        )

    @property
    def trivial_bound(self) -> float:
        """The largest possible regret or shortfall."""
        return metrics.trivial_bound(self.config["n_slots"], self.config["n_rounds"])

    @property
    def views_at_one(self) -> float:
        """The page views of a link for which Con-UCB's bound is 1 with the printed γ: 2γ."""
        config = self.config
        n_links, n_rounds = config["n_links"], config["n_rounds"]
        return 2 * paper_gamma(n_links, n_rounds, config["failure_probability"])

    @property
    def mean_views(self) -> float:
        """The page views that a link has on average over all rounds."""
        return float(self.config["n_slots"] * self.config["n_rounds"] / self.config["n_links"])

    @property
    def start_sentence(self) -> str:
        """How long Con-UCB's bounds stay at 1, compared with how often a link can be shown."""
        showings, share = self.views_at_one, self.mean_views
        verdict = "so many bounds stay at 1" if share < showings else "so most bounds fall below 1"
        return (
            f"{self.heading}: at the printed γ the bound of a link is 1 for its first "
            f"{style.readable(showings)} page views. On average a link is shown on "
            f"{style.readable(share)}, {verdict}."
        )

    def policy_name(self, label: str) -> str:
        """Return the registered name of the policy behind a label."""
        return _name_of(self._policy(label), label)

    def _policy(self, label: str) -> Mapping[str, Any]:
        """Return the settings of a policy; empty if they are not listed."""
        listed = self.config.get("policies", ())
        return next((policy for policy in listed if policy["label"] == label), {})

    def labels_of_policy(self, labels: Sequence[str], name: str) -> list[str]:
        """Return those of `labels` that belong to the policy registered as `name`."""
        listed = {policy["label"]: policy for policy in self.config.get("policies", ())}
        return [label for label in labels if _name_of(listed.get(label, {}), label) == name]

    def is_in_paper(self, label: str) -> bool:
        """Return False for a policy that runs with all of the paper's four and is none of them.

        If one of the four is missing, the experiment is not the paper's, and none is marked.
        """
        run = {policy["name"] for policy in self.config.get("policies", ())}
        is_papers = set(style.PAPER) <= run
        return not is_papers or label == style.ORACLE or self.policy_name(label) in style.PAPER

    def dagger_name(self, label: str, longest: int = 22) -> str:
        """Return the name of a policy in a figure, with a dagger if the paper does not have it."""
        if self.is_in_paper(label):
            return style.display_name(label, longest)
        return f"{style.display_name(label, longest - 2)} †"

    def dagger_note(self, labels: Sequence[str]) -> str:
        """Return what a dagger means, empty if none of `labels` has one."""
        return "" if all(map(self.is_in_paper, labels)) else f"† {NOT_IN_PAPER}"

    def marked_name(self, label: str, longest: int = 60) -> str:
        """Return the name of a policy in a table, marked in words if the paper does not have it."""
        name = style.display_name(label, longest)
        return name if self.is_in_paper(label) else f"{name} ({NOT_IN_PAPER})"

    def gamma_scale(self, label: str) -> float | None:
        """Return the `gamma_scale` of a label, None if it has none."""
        usual = 1.0 if label == style.SUBJECT else None
        scale = self._policy(label).get("settings", {}).get("gamma_scale", usual)
        return None if scale is None else float(scale)
