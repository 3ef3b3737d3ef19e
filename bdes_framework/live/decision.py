"""What a live learner answers: a decision, and what became of a reward."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

RewardAnswer: TypeAlias = Literal["noted", "duplicate", "late"]
"""Whether a reward was noted, was known before, or came when its window was over."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An arm to show to a user now.

    Attributes
    ----------
    id : str
        Names this decision when its reward comes.
    user : str
        Who it is shown to.
    arm : str
        What to show.
    probability : float
        How likely this arm was, given the model and all that was shown before.
    model : int
        The number of the model that was decided by.
    """

    id: str
    user: str
    arm: str
    probability: float
    model: int
