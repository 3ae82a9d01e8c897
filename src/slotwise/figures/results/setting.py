"""The settings of an experiment that figures show, read from its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slotwise import metrics
from slotwise.errors import InvalidInput
from slotwise.figures.look.known_policies import ORACLE, PAPER, SUBJECT, display_name
from slotwise.figures.look.style import readable
from slotwise.selection.confidence import paper_gamma
from slotwise.simulation.results import Results

__all__ = ["NOT_IN_PAPER", "Setting"]

NOT_IN_PAPER = "not in the paper"
"""The mark of a policy that runs beside the paper's four; a dagger where there is little room."""


@dataclass(frozen=True)
class Setting:
    """The settings of one experiment that figures and reports show."""

    config: Mapping[str, Any]
    n_runs: int

    NEEDED = (
        "dataset",
        "n_links",
        "n_slots",
        "click_floor",
        "failure_probability",
        "n_rounds",
        "optimum",
    )

    @classmethod
    def of(cls, results: Results) -> Setting:
        """Read the settings of `results`; the error for a missing one names it."""
        for key in cls.NEEDED:
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
        says_so = "look-alike" in self.title.lower()
        return f"{self.title} (look-alike)" if self.is_look_alike and not says_so else self.title

    @property
    def figure_title(self) -> str:
        """The title of the experiment, or the data set's if the experiment has none."""
        title = str(self.config.get("experiment") or self.title)
        is_unsaid = self.is_look_alike and "look-alike" not in title.lower()
        return f"{title} (look-alike)" if is_unsaid else title

    @property
    def data_sentence(self) -> str:
        """Where the links come from."""
        recipe = ", drawn from a recipe" if self.is_look_alike else ""
        return f"data: {self.full_title}{recipe}"

    @property
    def delay_sentence(self) -> str:
        """How late feedback is, by level; empty if it is immediate."""
        levels = zip(self.config.get("levels", ()), self.config.get("delays", ()), strict=False)
        late = [f"{level} by {readable(delay)}" for level, delay in levels if delay]
        return f"late feedback: {', '.join(late)} rounds" if late else ""

    @property
    def heading(self) -> str:
        """The full title with the floor, since one data set may be run with several floors."""
        floor = self._floors_in_words or f"h = {readable(self.config['click_floor'])}"
        title = self.full_title
        return f"{title[:-1]}, {floor})" if title.endswith(")") else f"{title} ({floor})"

    @property
    def short_heading(self) -> str:
        """The data set's name with the floor, for sentences that name many."""
        floor = self._floors_in_words or f"h = {readable(self.config['click_floor'])}"
        return f"{self.name} ({floor})"

    @property
    def optimum(self) -> float:
        """The best revenue per round that keeps the floor."""
        return float(self.config["optimum"]["value"])

    @property
    def is_floor_infeasible(self) -> bool:
        """Whether no page has as many clicks as the floor asks for."""
        return bool(self.config["optimum"].get("status") == "infeasible")

    @property
    def floor_names(self) -> tuple[str, ...]:
        """The floors beyond a click floor alone: levels, and rates such as "cart/click"."""
        return tuple(self.config["optimum"].get("shadow_prices", ()))

    def floor_in_words(self, name: str) -> str:
        """Return what a floor asks for: "cart 1", or "cart/click 0.2" of a rate."""
        level = name.partition("/")[0]
        asked = self.config["rate_floors"][level] if "/" in name else self.config["floors"][level]
        return f"{name} {readable(asked)}"

    @property
    def _floors_in_words(self) -> str:
        return ", ".join(map(self.floor_in_words, self.floor_names))

    def _several_floors_sentence(self) -> str:
        optimum, floors = self.config["optimum"], f"floors {self._floors_in_words}"
        if optimum["status"] == "infeasible":
            part = f"{100 * optimum['largest_shortfall']:.3g} %"
            return f"{floors}, infeasible: {part} is the largest relative shortfall"
        if optimum["status"] == "slack":
            return f"{floors}, slack: the best page keeps them"
        priced = [
            f"{name} at {readable(price)}"
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
        floor = f"floor {readable(self.config['click_floor'])} clicks"
        status = optimum.get("status", "")
        if status == "binding":
            return f"{floor}, binding at a shadow price of {readable(optimum['shadow_price'])}"
        if status == "slack":
            return f"{floor}, slack: the best page has {readable(optimum['clicks'])}"
        if status == "infeasible":
            attainable = readable(optimum["attainable_clicks"])
            return f"{floor}, infeasible: at most {attainable}; compared with the most clicked page"
        return floor

    @property
    def size_sentence(self) -> str:
        """The size of the experiment."""
        runs = "one run" if self.n_runs == 1 else f"{self.n_runs} runs"
        return (
            f"{self.config['n_links']} links, {self.config['n_slots']} slots, "
            f"{readable(self.config['n_rounds'])} rounds, {runs}"
        )

    @property
    def origin_sentence(self) -> str:
        """What made the numbers: runs, seed, version, and the commit where it is known."""
        parts = [f"{self.n_runs} run{'s' if self.n_runs != 1 else ''}"]
        named = {"seed": "seed", "version": "slotwise", "commit": "commit"}
        parts += [
            f"{word} {self.config[key]}"
            for key, word in named.items()
            if self.config.get(key) is not None
        ]
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
    def start_sentence(self) -> str:
        """How long Con-UCB's bounds stay at 1, compared with how often a link can be shown."""
        config = self.config
        n_links, n_slots, n_rounds = (config[key] for key in ("n_links", "n_slots", "n_rounds"))
        showings = 2 * paper_gamma(n_links, n_rounds, config["failure_probability"])
        share = n_slots * n_rounds / n_links
        verdict = "so many bounds stay at 1" if share < showings else "so most bounds fall below 1"
        return (
            f"{self.heading}: at the printed γ the bound of a link is 1 for its first "
            f"{readable(showings)} page views. On average a link is shown on {readable(share)}, "
            f"{verdict}."
        )

    def policy_name(self, label: str) -> str:
        """Return the registered name of the policy behind a label."""
        for policy in self.config.get("policies", ()):
            if policy["label"] == label:
                return str(policy["name"])
        return label.partition("/")[0]

    def labels_of_policy(self, labels: Sequence[str], name: str) -> list[str]:
        """Return those of `labels` that stand for the policy registered as `name`."""
        return [label for label in labels if self.policy_name(label) == name]

    def is_in_paper(self, label: str) -> bool:
        """Return False for a policy that runs beside all of the paper's four and is none of them.

        Where one of the four is missing, the experiment is not the paper's, and all are alike.
        """
        run = {policy["name"] for policy in self.config.get("policies", ())}
        is_papers = set(PAPER) <= run
        return not is_papers or label == ORACLE or self.policy_name(label) in PAPER

    def dagger_name(self, label: str, longest: int = 22) -> str:
        """Return the name of a policy in a figure, with a dagger if the paper does not have it."""
        if self.is_in_paper(label):
            return display_name(label, longest)
        return f"{display_name(label, longest - 2)} †"

    def dagger_note(self, labels: Sequence[str]) -> str:
        """Return what a dagger means, empty if none of `labels` has one."""
        return "" if all(map(self.is_in_paper, labels)) else f"† {NOT_IN_PAPER}"

    def marked_name(self, label: str, longest: int = 60) -> str:
        """Return the name of a policy in a table, marked in words if the paper does not have it."""
        name = display_name(label, longest)
        return name if self.is_in_paper(label) else f"{name} ({NOT_IN_PAPER})"

    def gamma_scale(self, label: str) -> float | None:
        """Return the `gamma_scale` of a label, None if it has none."""
        for policy in self.config.get("policies", ()):
            if policy["label"] == label and "gamma_scale" in policy.get("settings", {}):
                return float(policy["settings"]["gamma_scale"])
        return 1.0 if label == SUBJECT else None
