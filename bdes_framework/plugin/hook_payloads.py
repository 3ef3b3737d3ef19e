"""Arguments of the run hooks: a run's progress, and a finished cell."""

from attrs import frozen


@frozen
class RunProgress:
    """How far one run of an experiment has come.

    Parameters
    ----------
    name : str
        The experiment's name.
    n_cells : int
        How many cells the run has.
    n_finished, n_failed : int
        How many of them have succeeded, and how many have failed.
    """

    name: str
    n_cells: int
    n_finished: int = 0
    n_failed: int = 0


@frozen
class FinishedCell:
    """One finished cell: one policy on one environment, for one horizon and replication.

    Parameters
    ----------
    environment, policy : str
        Their labels in the experiment.
    horizon : int
        Number of rounds.
    replication : int
        Which repetition, counted from 0; the same number means the same random numbers.
    total_reward, total_mean : float | None
        Sum of the rewards, and of their expectations on the arms pulled; None if it failed.
    error : str | None
        How it failed, on one line; None if it succeeded.
    """

    environment: str
    policy: str
    horizon: int
    replication: int
    total_reward: float | None = None
    total_mean: float | None = None
    error: str | None = None
