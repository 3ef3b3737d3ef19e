"""The interactive charts of the page: definitions, rows packed small, and text alternatives."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from bdes_framework.experiment.pooling import HORIZON
from bdes_framework.report import charts
from bdes_framework.report.data import (
    COHORT_SHARE,
    MAX_POINTS,
    REGRET,
    SHARE,
    USER_REGRET,
    USER_REWARD,
    RunData,
    Setting,
    across_rows,
    axis_of,
    common_cohort_measure,
    curve_rows,
    final_rows,
    loglog_rows,
)
from bdes_framework.report.labels import LEAST_OF_LOG, Row, clipped, grouped, place_names
from bdes_framework.report.packing import Option, Packing, figure_option, file_stem
from bdes_framework.report.slopes import SlopeFit
from bdes_framework.report.trajectories import Trajectory

MAX_CURVE_POINTS = 40_000
MIN_POINTS = 12
MAX_SETTINGS = 600

Fits = Mapping[tuple[str, str], SlopeFit]

_POLICY = ("policy", "policy")
_DRAWN = ("drawn_low", "drawn_high")
_INTERVAL = [("value", "mean"), ("low", "95 % from"), ("high", "95 % to")]


class Figures:
    """What the page's script needs to draw; strings and definitions are kept once.

    Attributes
    ----------
    options : dict[str, list[Option]]
        The entries of each figure's picker.
    left_out : int
        How many panels have no entry: the page would get too large.
    """

    def __init__(self, data: RunData, fits: Fits, trajectories: Sequence[Trajectory]) -> None:
        self._data = data
        self._step = data.run.step
        self._is_crowd = self._step == "visit"
        self._policies = data.policies
        self._packing = Packing()
        n_policies = max(len(self._policies), 1)
        max_settings = MAX_CURVE_POINTS // (MIN_POINTS * n_policies)
        settings = data.settings()[:max_settings]
        self.left_out = len(data.settings()) - len(settings)
        n_curves = max(len(settings) * n_policies, 1)
        points = max(MIN_POINTS, min(MAX_POINTS, MAX_CURVE_POINTS // n_curves))
        max_families = MAX_CURVE_POINTS // (n_policies * max(len(data.horizons), 1))
        fitted = list(dict.fromkeys(family for family, _ in fits))
        self.options: dict[str, list[Option]] = {
            "share": self._share(),
            "regret": [self._regret(setting, points) for setting in settings],
            "loglog": [self._loglog(family, fits) for family in fitted[:max_families]],
            "path": [self._path(trajectory) for trajectory in trajectories],
        }
        if self._is_crowd:
            self.options["users"] = [self._users(setting, points) for setting in settings]
            self.options["cohorts"] = [self._cohorts(setting, points) for setting in settings]

    def script_data(self) -> dict[str, Any]:
        """Return everything as plain JSON."""
        return {
            "figures": self.options,
            **self._packing.script_data(),
            **self._data.dimensions.script_data(),
            "split": self._data.table.by[0] if self._data.table.by else None,
            "file": file_stem(self._data.run.name),
            "policies": list(self._policies),
            "leastOfLog": LEAST_OF_LOG,
            "themes": {
                name: charts.theme(name, list(self._policies.values()))
                for name in ("light", "dark")
            },
        }

    # -- one method per figure --------------------------------------------------------------

    def _share(self) -> list[Option]:
        """Return the charts of what the ranked table has: across lam, or a dot per policy."""
        data, axis = self._data, axis_of(self._data)
        settings = data.settings()[:MAX_SETTINGS]
        if axis is None:
            return [self._dots(setting) for setting in settings]
        rows = across_rows(data, settings, axis, data.measure)
        panels = grouped(rows, itemgetter("panel"))
        values = sorted({row[axis] for row in rows})
        return [self._across(name, axis, values, own) for name, own in panels.items()]

    def _across(self, name: str, axis: str, values: Sequence[float], rows: list[Row]) -> Option:
        measure = self._data.measure
        part = self._packing.part(
            "across",
            lambda: charts.across(
                self._policies, measure, axis, values, step=self._step
            ).properties(height=300),
            place_names(rows, x=axis, zero=measure != SHARE),
            [_POLICY, (axis, axis), *_INTERVAL],
            f"{charts.MEASURES[measure]} across {axis}: {name}.",
            also=("label_at", "drawn_at", "setting", *_DRAWN),
        )
        return figure_option(name, part, settings=sorted({row["setting"] for row in rows}))

    def _dots(self, setting: Setting) -> Option:
        name, measure = self._data.name_of(setting), self._data.measure
        height = 30 * len(self._policies)
        part = self._packing.part(
            "dots",
            lambda: charts.final(self._policies, measure).properties(height=height),
            final_rows(self._data, setting, measure),
            [_POLICY, *_INTERVAL],
            f"{charts.MEASURES[measure]} of each policy: {name}.",
            also=_DRAWN,
            zoom=False,
        )
        return figure_option(name, part, settings=[self._data.dimensions.index(setting)])

    def _regret(self, setting: Setting, points: int) -> Option:
        data, name = self._data, self._data.name_of(setting)
        measure = REGRET if data.has_regret(setting) else data.reward
        ends = ", ".join(f"{r['policy']} {r['label']}" for r in final_rows(data, setting, measure))
        words = f"over {self._step}s: {name}. At the end: {ends}."
        return self._curves(setting, points, measure, self._step, words)

    def _users(self, setting: Setting, points: int) -> Option:
        """Return the chart over users, in the order they first came."""
        measure = USER_REGRET if self._data.has_regret(setting) else USER_REWARD
        words = f"over users, in the order they first came: {self._data.name_of(setting)}."
        return self._curves(setting, points, measure, "users", words)

    def _cohorts(self, setting: Setting, points: int) -> Option:
        """Return the chart of cohorts of users: what learning was worth."""
        measure = common_cohort_measure(self._data, [setting])
        words = f"of cohorts of users, in the order they first came: {self._data.name_of(setting)}."
        return self._curves(setting, points, measure, "up to user", words, log=True)

    def _curves(
        self,
        setting: Setting,
        points: int,
        measure: str,
        over: str,
        words: str,
        *,
        log: bool = False,
    ) -> Option:
        data = self._data
        zero = measure != COHORT_SHARE
        part = self._packing.part(
            f"regret {measure} {over}",
            lambda: charts.regret(self._policies, measure, over=over, log=log).properties(
                height=280
            ),
            place_names(curve_rows(data, setting, measure, points), zero=zero),
            [_POLICY, ("round", over), *_INTERVAL],
            f"{charts.MEASURES[measure]} {words}",
            also=("label_at", "label_log"),
        )
        return figure_option(data.name_of(setting), part, settings=[data.dimensions.index(setting)])

    def _loglog(self, family: str, fits: Fits) -> Option:
        data = self._data
        slopes = ", ".join(
            f"{data.policy_names[policy]} {fit.slope:.2f}"
            for (place, policy), fit in fits.items()
            if place == family
        )
        part = self._packing.part(
            "loglog",
            lambda: charts.loglog(self._policies, data.horizons, step=self._step).properties(
                height=300
            ),
            loglog_rows(data, family, fits, self._policies),
            [_POLICY, ("T", "T"), *_INTERVAL],
            f"{charts.MEASURES[REGRET]} against T on log scales: {family}. Slopes: {slopes}.",
            also=("kind", "label", "label_at", *_DRAWN),
            kinds=["mean"],
        )
        same = [s for s in data.settings() if data.name_of(s, (HORIZON,)) == family]
        return figure_option(family, part, settings=list(map(data.dimensions.index, same)))

    def _path(self, path: Trajectory) -> Option:
        setting = self._data.setting_of(path.environment, path.horizon)
        name = f"{self._data.policy_names[path.policy]}: {self._data.name_of(setting)}"
        if len(setting.variants) > 1:
            instance = self._data.run.variants[path.environment, path.horizon].instance
            name += f", instance {clipped(instance, 40)}"
        parts = self._crowd_parts(path, name) if self._is_crowd else []
        if path.states and not self._is_crowd:
            bins = [("round", "from round"), ("until", "to round"), ("state", "mean state")]
            parts = [
                self._packing.part(
                    "state",
                    lambda: charts.state().properties(height=190),
                    path.states,
                    [*bins, ("lowest", "lowest"), ("highest", "highest")],
                    f"The state over rounds: {name}. It ends at {path.states[-1]['state']:.3f}.",
                )
            ]
        step = self._step
        pulls = "pulls" if step == "round" else "visits"
        arms = self._packing.part(
            f"arms {path.arm_names}",
            lambda: charts.arms(path.arm_names, step=step).properties(height=190),
            path.arms,
            [("round", f"from {step}"), ("arm", "arm"), ("share", f"share of {pulls}")],
            f"Which arms were {'pulled' if step == 'round' else 'shown'} over {step}s: {name}.",
            also=("position",),
            zoom=False,
        )
        return figure_option(
            name,
            *parts,
            arms,
            settings=[self._data.dimensions.index(setting)],
            policy=list(self._policies).index(self._data.policy_names[path.policy]),
        )

    def _crowd_parts(self, path: Trajectory, name: str) -> list[dict[str, Any]]:
        """Return the states of the users who came, and what was shown at which state."""
        if not path.states:
            return []
        bins = [("round", "from visit"), ("until", "to visit")]
        states = self._packing.part(
            "states",
            lambda: charts.states().properties(height=190),
            path.states,
            [*bins, *charts.QUANTILES.items()],
            f"The states of the users who came, over visits: {name}.",
        )
        by_state = self._packing.part(
            f"by state {path.arm_names}",
            lambda: charts.arms_by_state(path.arm_names).properties(height=190),
            path.by_state,
            [
                ("from", "from state"),
                ("to", "to state"),
                ("arm", "arm"),
                ("share", "share of visits"),
                ("visits", "visits"),
            ],
            f"Which arms were shown at which state, in the second half of the visits: {name}.",
            also=("below", "above"),
            zoom=False,
        )
        return [states, by_state]
