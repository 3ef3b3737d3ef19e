"""The hooks a plugin can implement, their arguments, and the version of the contract.

A plugin is a module, named by an entry point of the group ``bdes_framework``, that says
which contract it was written for and implements at least ``bdes_register``::

    from bdes_framework import Registrar, hookimpl

    BDES_API_VERSION = 1

    @hookimpl
    def bdes_register(registrar: Registrar) -> None:
        registrar.policy("my-policy", MyConfig, build_my_policy)

Hooks build tables once, or fire at a run's boundaries in the parent process. None is
ever called while a cell runs.
"""

import pluggy
from attrs import frozen

from bdes_framework.plugin.registry import Registrar

PROJECT = "bdes_framework"

API_VERSION = 1
"""The contract's version. A plugin declares the one it was written for as a module constant
``BDES_API_VERSION``; a newer one than this fails to load."""

hookspec = pluggy.HookspecMarker(PROJECT)

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin module as the implementation of the hook it is named after."""


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
    n_reused : int
        How many of those that succeeded were there before, in this run or in another.
    notes : tuple[str, ...]
        What is reused, and whose change makes cells run again, a line each.
    """

    name: str
    n_cells: int
    n_finished: int = 0
    n_failed: int = 0
    n_reused: int = 0
    notes: tuple[str, ...] = ()


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


class HookSpecs:
    """The hooks, each with its arguments; an implementation may leave arguments out."""

    @hookspec
    def bdes_register(self, registrar: Registrar) -> None:
        """Register environments, policies, planners, noise models and engines.

        Called once when plugins are loaded. If it raises half-way, or claims
        a name that is taken, nothing of this plugin is registered.
        """

    @hookspec
    def bdes_run_started(self, run: RunProgress) -> None:
        """Observe that a run is about to start.

        Called once per run, in the parent process, before the first cell. What this or one of
        the following hooks raises is reported as a warning and does not stop the run.
        """

    @hookspec
    def bdes_cell_finished(self, run: RunProgress, cell: FinishedCell) -> None:
        """Observe that one cell has finished, with a result or an error.

        Called once per cell, in the parent process, after the cell's result is saved.
        """

    @hookspec
    def bdes_run_finished(self, run: RunProgress) -> None:
        """Observe that a run is over: called once, in the parent process, after the last cell."""
