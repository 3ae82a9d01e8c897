"""The types of arrays that most modules take and return, named once; imports numpy only.

Used by most of the package.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Numbers in double precision: rates, probabilities, counts of views, sums of outcomes."""

Links = NDArray[np.int64]
"""Links by their places in the pool, from 0 on."""

Places = NDArray[np.int64]
"""Places in another list, such as those of a visitor's values among the values of all features."""

Whole = NDArray[np.int64]
"""Other whole numbers: sizes, codes, rounds."""
