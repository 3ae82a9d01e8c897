"""Labels at the ends of lines, moved apart just enough to be readable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from slotwise.figures.look.lettering import write
from slotwise.figures.look.style import Stroke

__all__ = ["EndLabel", "label_ends", "spread"]

Floats = NDArray[np.float64]

GAP_POINTS = 11.5


class EndLabel(NamedTuple):
    """A name, the height at which its line ends, and the line's stroke."""

    text: str
    height: float
    stroke: Stroke


def spread(heights: Sequence[float], gap: float, low: float, high: float) -> Floats:
    """Return the closest heights that are at least `gap` apart and in the same order.

    This is least squares under an order constraint: with i · gap subtracted from the i-th height it
    is isotonic regression, solved by pooling adjacent violators. The heights lie within [low, high]
    if there is room.

    >>> spread([5.0, 5.0, 9.0], gap=1.0, low=0.0, high=10.0).tolist()
    [4.5, 5.5, 9.0]
    """
    wanted = np.asarray(heights, np.float64)
    order = np.argsort(wanted, kind="stable")
    offsets = gap * np.arange(len(wanted))
    pools: list[tuple[float, int]] = []
    for height in wanted[order] - offsets:
        mean, count = float(height), 1
        while pools and pools[-1][0] > mean:
            other, n_other = pools.pop()
            mean = (mean * count + other * n_other) / (count + n_other)
            count += n_other
        pools.append((mean, count))
    relaxed = np.concatenate([np.full(count, mean) for mean, count in pools] or [np.zeros(0)])
    room = max(low, high - gap * max(len(wanted) - 1, 0))
    placed = np.empty(len(wanted))
    placed[order] = np.clip(relaxed, low, room) + offsets
    return placed


def label_ends(axes: Axes, labels: Sequence[EndLabel]) -> None:
    """Write each label to the right of the axes; call it after the limits are set."""
    pixels = axes.get_window_extent()
    points_high = pixels.height * 72 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    ends = axes.transData.transform([(0.0, label.height) for label in labels])[:, 1]
    fractions = (ends - pixels.y0) / pixels.height
    gap = GAP_POINTS / points_high
    for label, end, place in zip(
        labels, fractions, spread(list(fractions), gap, 0.0, 1.0), strict=True
    ):
        axes.plot(
            [1.0, 1.025, 1.045],
            [end, place, place],
            transform=axes.transAxes,
            color=label.stroke.colour,
            linewidth=0.8,
            clip_on=False,
        )
        look = {"color": label.stroke.colour, "fontsize": 8, "fontweight": "bold"}
        write(axes, (1.055, place), label.text, va="center_baseline", **look)
