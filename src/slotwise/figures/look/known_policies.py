"""What figures know about policies, in one place: names, lines, and the paper's four.

A policy that is not listed here is drawn too: under its label, in a line of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from slotwise.figures.look.style import BLUE, VERMILION, Stroke

__all__ = [
    "BASELINES",
    "FLOORLESS",
    "KNOWN",
    "ORACLE",
    "PAPER",
    "SUBJECT",
    "display_name",
    "strokes",
]


class KnownPolicy(NamedTuple):
    """How figures call and draw a policy, and its part in the paper."""

    display_name: str
    stroke: Stroke
    is_in_paper: bool = False
    ignores_floor: bool = False
    """Whether it seeks another optimum, so that the paper leaves its regret out."""


SUBJECT = "con-ucb"
"""The algorithm that the paper proposes and that its claims are about."""

ORACLE = "oracle"
"""The label of the best fixed mix on the true rates."""

# Okabe and Ito's and Tol's colour-blind safe sets. The best fixed mix is grey and dashed: it is
# the line that others are compared with.
KNOWN: Mapping[str, KnownPolicy] = {
    ORACLE: KnownPolicy("oracle x*", Stroke("#4a5560", (4, 2))),
    SUBJECT: KnownPolicy("Con-UCB", Stroke(BLUE), is_in_paper=True),
    "con-ucb/72": KnownPolicy("Con-UCB γ/72", Stroke("#2b9fe0", (7, 1.6))),
    "lexp": KnownPolicy("LExp", Stroke(VERMILION), is_in_paper=True),
    "cucb": KnownPolicy("CUCB", Stroke("#e69f00"), is_in_paper=True, ignores_floor=True),
    "exp3-m": KnownPolicy("Exp3.M", Stroke("#009e73"), is_in_paper=True, ignores_floor=True),
    "uniform": KnownPolicy("uniform", Stroke("#999999", (1.5, 1.5))),
    "queue-ts": KnownPolicy("queue-ts", Stroke("#cc79a7")),
    "paced-kl": KnownPolicy("paced-kl", Stroke("#ee3377")),
    "paced-bayes": KnownPolicy("paced-bayes", Stroke("#882255")),
}

PAPER = tuple(name for name, known in KNOWN.items() if known.is_in_paper)
"""The four algorithms of the paper's experiments."""

BASELINES = tuple(name for name in PAPER if name != SUBJECT)
"""What the paper compares its algorithm with."""

FLOORLESS = tuple(name for name in PAPER if KNOWN[name].ignores_floor)
"""Those of them that ignore the floor."""

OTHER_COLOURS = ("#cc79a7", "#332288", "#117733", "#882255", "#999933", "#44aa99", "#661100")
OTHER_DASHES = (None, (3, 1.2), (6, 1.5, 1.5, 1.5), (1.5, 1))
SCALED_COLOURS = ("#7b8fe0", "#00507d", "#2b9fe0")
SCALED_DASHES = ((2.5, 1.2), (9, 1.5, 2, 1.5), (4, 1, 1, 1))


def strokes(labels: Iterable[str]) -> dict[str, Stroke]:
    """Return a stroke for every label, all different.

    Known labels look the same in every figure. Another label starts at a place given by a
    checksum of its name and moves on only if that stroke is taken in this figure, in alphabetical
    order. So neither the order of the labels nor the day changes a stroke.

    >>> strokes(["lexp", "mine"])["lexp"].colour
    '#d55e00'
    >>> strokes(["mine", "lexp"])["mine"] == strokes(["mine"])["mine"]
    True
    """
    wanted = list(labels)
    chosen = {label: KNOWN[label].stroke for label in wanted if label in KNOWN}
    taken = set(chosen.values())
    for label in sorted(set(wanted) - chosen.keys()):
        # The paper's algorithm keeps its hue, whatever its γ.
        is_scaled = label.startswith(f"{SUBJECT}/")
        colours, dashes = (
            (SCALED_COLOURS, SCALED_DASHES) if is_scaled else (OTHER_COLOURS, OTHER_DASHES)
        )
        start = zlib.crc32(label.encode()) % len(colours)
        rotated = [*colours[start:], *colours[:start]]
        around = [Stroke(colour, pattern) for pattern in dashes for colour in rotated]
        chosen[label] = next((stroke for stroke in around if stroke not in taken), around[0])
        taken.add(chosen[label])
    return {label: chosen[label] for label in wanted}


def display_name(label: str, longest: int = 22) -> str:
    """Return the name of a policy in a figure.

    >>> display_name("con-ucb/720"), display_name("exp3-m"), display_name("mine")
    ('Con-UCB γ/720', 'Exp3.M', 'mine')
    """
    family, slash, divisor = label.partition("/")
    name = KNOWN[label].display_name if label in KNOWN else label
    if slash and family == SUBJECT and divisor.isdecimal():
        name = f"{KNOWN[SUBJECT].display_name} γ/{divisor}"
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
