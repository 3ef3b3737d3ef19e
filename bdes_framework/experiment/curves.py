"""Curves of a run: what was earned after so many rounds, or by so many users."""

from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import shown_fields


@frozen(eq=False)
class Curves:
    """The curves of one policy on one environment at one horizon, one row per replication.

    Parameters
    ----------
    checkpoints : IntArray, shape (c,)
        Numbers of rounds after which the curves were recorded.
    replications : IntArray, shape (n,)
        Numbers of the replications.
    rewards, means : FloatArray, shape (n, c)
        Cumulative reward, and its expectation.
    regret : FloatArray | None, shape (n, c)
        DES regret; None without a benchmark.
    states : FloatArray | None, shape (n, c)
        Cumulative state of the pulls; None if the environment brings none. With the largest
        r, ``r * states - means`` is external regret.
    steps : IntArray, shape (n, c)
        Numbers of rounds, or of the visits there were, at each checkpoint.
    over_users : OverUsers | None
        The same over users in the order they first came; None with one audience.
    """

    checkpoints: IntArray
    replications: IntArray
    rewards: FloatArray
    means: FloatArray
    regret: FloatArray | None
    states: FloatArray | None
    steps: IntArray
    over_users: "OverUsers | None" = None

    def __repr__(self) -> str:
        regret = {} if self.regret is None else {"regret": float(self.regret[:, -1].mean())}
        return shown_fields(
            "Curves",
            replications=self.replications.size,
            checkpoints=self.checkpoints.size,
            horizon=int(self.checkpoints[-1]),
            reward=float(self.rewards[:, -1].mean()),
            **regret,
        )


@frozen(eq=False)
class OverUsers:
    """Curves over users of one policy on one environment, one row per replication.

    Parameters
    ----------
    users : IntArray, shape (d,)
        Numbers of users, in the order they first came, that all replications had.
    rewards, means : FloatArray, shape (n, d)
        Reward of the first so many users, and its expectation.
    regret : FloatArray | None, shape (n, d)
        DES regret of the first so many users; None without a benchmark.
    """

    users: IntArray
    rewards: FloatArray
    means: FloatArray
    regret: FloatArray | None

    def __repr__(self) -> str:
        shape = {"replications": len(self.means), "users": int(self.users[-1])}
        return shown_fields("OverUsers", **shape, checkpoints=self.users.size)
