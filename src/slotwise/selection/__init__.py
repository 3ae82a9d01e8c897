"""From estimates to links: confidence bounds, the floor program, its frontier, rounding.

`solve` solves one floor program, `floor_program` reuses one from page to page, `several_floors`,
`rules` and `solve_kinds` solve those with more floors, rules of pools or kinds of visitors, and
`rounding` draws a page from probabilities. Time-critical code is compiled and allocates nothing.
Policies, player, evaluation and reports use it. It may import `compile` and the problem.
"""

from slotwise.compile import compiled
from slotwise.selection.frontier import Frontier, frontier
from slotwise.selection.mix import Mix, dense_probabilities, new_mix, set_probabilities
from slotwise.selection.rounding import dependent_rounding, draw_page
from slotwise.selection.rules import RuledSolution, SlotRule, solve_rules
from slotwise.selection.several_floors import FloorsSolution, solve_floors
from slotwise.selection.solve import Solution, solve
from slotwise.selection.solve_kinds import KindsSolution, solve_kinds

__all__ = [
    "FloorsSolution",
    "Frontier",
    "KindsSolution",
    "Mix",
    "RuledSolution",
    "SlotRule",
    "Solution",
    "compiled",
    "dense_probabilities",
    "dependent_rounding",
    "draw_page",
    "frontier",
    "new_mix",
    "set_probabilities",
    "solve",
    "solve_floors",
    "solve_kinds",
    "solve_rules",
]
