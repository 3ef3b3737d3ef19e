"""Array aliases shared by the whole framework: blocks of pulls travel as these two."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
"""Rewards, means, states, parameters: 64-bit floats."""

IntArray: TypeAlias = NDArray[np.int64]
"""Arms and rounds, counted from 0: 64-bit integers."""
