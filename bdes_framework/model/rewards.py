"""What a policy may be told: a check for ``tell``, where a live service hands rewards over."""

import numpy as np

from bdes_framework._internal.arrays import FloatArray
from bdes_framework.errors import InvalidValueError


def finite_rewards(rewards: FloatArray, asked: int) -> FloatArray:
    """Return the rewards told, or refuse them before they spoil every mean after them.

    Parameters
    ----------
    rewards : array of float, shape (n,)
        As given to :meth:`Policy.tell`.
    asked : int
        How many arms the last :meth:`Policy.ask` returned.

    Raises
    ------
    InvalidValueError
        If they are not as many as were asked for, or one of them is NaN or infinite; the
        policy should not have learned any by then.

    Examples
    --------
    >>> finite_rewards(np.array([0.0, 1.0]), 2).tolist()
    [0.0, 1.0]
    """
    if rewards.size != asked:
        raise InvalidValueError(f"asked for {asked} pulls, told the rewards of {rewards.size}")
    finite = np.isfinite(rewards)
    if not finite.all():
        place = int(np.argmin(finite))
        raise InvalidValueError(
            f"rewards must be finite numbers, got {rewards.tolist()[place]!r}"
            f" as number {place + 1} of {rewards.size}"
        )
    return rewards
