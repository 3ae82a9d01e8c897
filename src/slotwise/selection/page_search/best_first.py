"""Put the best candidates of a search first: by score, and by `second` among equal scores."""

from __future__ import annotations

from slotwise.selection.compiled import inner
from slotwise.selection.page_search.page_scratch import Search

__all__ = ["put_best_first"]

FEW = 16
"""So many candidates are sorted, of more only the best are put first."""


@inner
def _is_better(key: float, tie: float, other_key: float, other_tie: float) -> bool:
    return key > other_key or (key == other_key and tie > other_tie)


@inner
def _swap(search: Search, i: int, j: int) -> None:
    entry, first, second = search.entry, search.first, search.second
    entry[i], entry[j] = entry[j], entry[i]
    first[i], first[j] = first[j], first[i]
    second[i], second[j] = second[j], second[i]


@inner
def _sort(search: Search, begin: int, end: int) -> None:
    """Sort candidates, the best first; for few of them."""
    entry, first, second = search.entry, search.first, search.second
    for k in range(begin + 1, end):
        moved, key, tie = entry[k], first[k], second[k]
        place = k
        while place > begin and _is_better(key, tie, first[place - 1], second[place - 1]):
            entry[place] = entry[place - 1]
            first[place] = first[place - 1]
            second[place] = second[place - 1]
            place -= 1
        entry[place], first[place], second[place] = moved, key, tie


@inner
def put_best_first(search: Search, begin: int, end: int, n_wanted: int) -> None:
    """Move the best `n_wanted` candidates of begin..end-1 to the front, the worst of them last."""
    if end - begin <= FEW:
        _sort(search, begin, end)
        return
    first, second = search.first, search.second
    low, high, target = begin, end - 1, begin + n_wanted - 1
    while low < high:
        middle = (low + high) // 2
        key, tie = first[middle], second[middle]
        i, j = low, high
        while i <= j:
            while _is_better(first[i], second[i], key, tie):
                i += 1
            while _is_better(key, tie, first[j], second[j]):
                j -= 1
            if i <= j:
                _swap(search, i, j)
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
