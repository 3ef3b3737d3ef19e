"""Arms that are shown, and those that were retired."""

import numpy as np
from numpy.typing import NDArray

from bdes_framework import InvalidValueError


def check_retired(is_active: NDArray[np.bool_], arm: int) -> None:
    """Raise unless this arm can be retired: it exists, is active, and is not the last."""
    if not 0 <= arm < is_active.size:
        raise InvalidValueError(f"there is no arm {arm}: arms go from 0 to {is_active.size - 1}")
    if not is_active[arm]:
        raise InvalidValueError(f"arm {arm} was retired before")
    if is_active.sum() == 1:
        raise InvalidValueError(f"arm {arm} is the only one left")
