"""What run-boundary hooks are told: plain values about a run and its cells."""

from attrs import frozen


@frozen
class RunRecord:
    """One run of an experiment, as of now.

    Parameters
    ----------
    name : str
        The experiment's name.
    n_cells : int
        How many cells the run has.
    n_finished, n_failed : int
        How many of them have finished well, and how many have failed.
    """

    name: str
    n_cells: int
    n_finished: int = 0
    n_failed: int = 0


@frozen
class CellRecord:
    """One finished cell: one policy on one environment, for one horizon and replication.

    Parameters
    ----------
    environment, policy : str
        Their labels in the experiment.
    horizon : int
        How many rounds were asked for.
    replication : int
        Which repetition, counted from 0; the same number means the same luck.
    total_reward, total_mean : float or None
        What was earned, and its expectation on the arms really pulled; None if it failed.
    regret : float or None
        DES regret; None without a benchmark or if it failed.
    error : str or None
        How it failed, on one line; None if it did not.
    """

    environment: str
    policy: str
    horizon: int
    replication: int
    total_reward: float | None = None
    total_mean: float | None = None
    regret: float | None = None
    error: str | None = None
