"""Bandits with deterministically evolving states: a typed, plugin-based framework.

The public names, and nothing else. They are resolved when first used (PEP 562), so that
importing the package, or asking the command line for help, costs next to nothing.
"""

from typing import TYPE_CHECKING

from bdes_framework._internal.lazy_names import lazy_names

if TYPE_CHECKING:
    from bdes_framework._internal.arrays import FloatArray as FloatArray
    from bdes_framework._internal.arrays import IntArray as IntArray
    from bdes_framework._internal.display import Summary as Summary
    from bdes_framework._internal.numbers import as_integer as as_integer
    from bdes_framework._internal.seeding import Seed as Seed
    from bdes_framework._version import __version__ as __version__
    from bdes_framework.calibration.ctr_curve import CtrCurve as CtrCurve
    from bdes_framework.calibration.ctr_curve import RateCalibration as RateCalibration
    from bdes_framework.calibration.ctr_curve import (
        UnidentifiedCurveError as UnidentifiedCurveError,
    )
    from bdes_framework.calibration.ctr_curve import calibrate_rate as calibrate_rate
    from bdes_framework.errors import BdesError as BdesError
    from bdes_framework.errors import ConfigError as ConfigError
    from bdes_framework.errors import ContractError as ContractError
    from bdes_framework.errors import ContradictionError as ContradictionError
    from bdes_framework.errors import InvalidValueError as InvalidValueError
    from bdes_framework.errors import JournalError as JournalError
    from bdes_framework.errors import Mistake as Mistake
    from bdes_framework.errors import PluginError as PluginError
    from bdes_framework.errors import ServiceError as ServiceError
    from bdes_framework.errors import StoreError as StoreError
    from bdes_framework.errors import UnknownNameError as UnknownNameError
    from bdes_framework.experiment.cell import Cell as Cell
    from bdes_framework.experiment.cell import CellResult as CellResult
    from bdes_framework.experiment.cell import Part as Part
    from bdes_framework.experiment.cell import UserCurves as UserCurves
    from bdes_framework.experiment.config import ExperimentConfig as ExperimentConfig
    from bdes_framework.experiment.curves import Curves as Curves
    from bdes_framework.experiment.curves import OverUsers as OverUsers
    from bdes_framework.experiment.file import Experiment as Experiment
    from bdes_framework.experiment.file import load_experiment as load_experiment
    from bdes_framework.experiment.fit_file import load_fit as load_fit
    from bdes_framework.experiment.fit_file import load_prior as load_prior
    from bdes_framework.experiment.fit_file import save_fit as save_fit
    from bdes_framework.experiment.pooling import Observations as Observations
    from bdes_framework.experiment.pooling import Unit as Unit
    from bdes_framework.experiment.pooling import Variant as Variant
    from bdes_framework.experiment.result_table import PolicyResults as PolicyResults
    from bdes_framework.experiment.result_table import Pooled as Pooled
    from bdes_framework.experiment.result_table import ResultTable as ResultTable
    from bdes_framework.experiment.result_table import TableColumn as TableColumn
    from bdes_framework.experiment.results import Run as Run
    from bdes_framework.experiment.results import RunBenchmark as RunBenchmark
    from bdes_framework.experiment.results import load_run as load_run
    from bdes_framework.experiment.run import run_experiment as run_experiment
    from bdes_framework.experiment.summary import CellSummary as CellSummary
    from bdes_framework.experiment.summary import Estimate as Estimate
    from bdes_framework.experiment.summary import Result as Result
    from bdes_framework.fitting.fisher_scoring import PosteriorPoint as PosteriorPoint
    from bdes_framework.fitting.fisher_scoring import ScoringRules as ScoringRules
    from bdes_framework.fitting.fisher_scoring import fisher_scoring as fisher_scoring
    from bdes_framework.fitting.fit import Forecast as Forecast
    from bdes_framework.fitting.fit import fit as fit
    from bdes_framework.fitting.fit import forecast as forecast
    from bdes_framework.fitting.goodness import GoodnessOfFit as GoodnessOfFit
    from bdes_framework.fitting.likelihood import Likelihood as Likelihood
    from bdes_framework.fitting.likelihood import fresh_state as fresh_state
    from bdes_framework.fitting.likelihood import likelihood_of as likelihood_of
    from bdes_framework.fitting.likelihood import sweep_information as sweep_information
    from bdes_framework.fitting.likelihood import sweep_likelihood as sweep_likelihood
    from bdes_framework.fitting.likelihood import sweep_log_likelihood as sweep_log_likelihood
    from bdes_framework.fitting.likelihood import sweep_log_likelihoods as sweep_log_likelihoods
    from bdes_framework.fitting.log import UNKNOWN_REWARD as UNKNOWN_REWARD
    from bdes_framework.fitting.log import Log as Log
    from bdes_framework.fitting.parametrisation import Coordinates as Coordinates
    from bdes_framework.fitting.parametrisation import RatePrediction as RatePrediction
    from bdes_framework.fitting.prior import FitPrior as FitPrior
    from bdes_framework.fitting.randomisation import RandomisationTest as RandomisationTest
    from bdes_framework.fitting.randomisation import randomisation_test as randomisation_test
    from bdes_framework.fitting.readers import read_log as read_log
    from bdes_framework.fitting.result import Fit as Fit
    from bdes_framework.fitting.result import ModelScore as ModelScore
    from bdes_framework.fitting.result import PlayableArms as PlayableArms
    from bdes_framework.fitting.rows import BadRows as BadRows
    from bdes_framework.fitting.rows import Columns as Columns
    from bdes_framework.fitting.suggestion import SuggestedExperiment as SuggestedExperiment
    from bdes_framework.fitting.suggestion import suggest_experiment as suggest_experiment
    from bdes_framework.interfaces import AnytimePlanner as AnytimePlanner
    from bdes_framework.interfaces import Benchmark as Benchmark
    from bdes_framework.interfaces import BuildContext as BuildContext
    from bdes_framework.interfaces import ChangesArms as ChangesArms
    from bdes_framework.interfaces import ChoosesApart as ChoosesApart
    from bdes_framework.interfaces import CrowdDecider as CrowdDecider
    from bdes_framework.interfaces import CrowdEnvironment as CrowdEnvironment
    from bdes_framework.interfaces import CrowdEnvironmentRef as CrowdEnvironmentRef
    from bdes_framework.interfaces import CrowdEstimates as CrowdEstimates
    from bdes_framework.interfaces import CrowdLearner as CrowdLearner
    from bdes_framework.interfaces import CrowdPolicy as CrowdPolicy
    from bdes_framework.interfaces import CrowdPolicyContext as CrowdPolicyContext
    from bdes_framework.interfaces import CrowdPolicyRef as CrowdPolicyRef
    from bdes_framework.interfaces import Diagnostics as Diagnostics
    from bdes_framework.interfaces import DiagnosticValue as DiagnosticValue
    from bdes_framework.interfaces import Engine as Engine
    from bdes_framework.interfaces import EngineRef as EngineRef
    from bdes_framework.interfaces import Environment as Environment
    from bdes_framework.interfaces import EnvironmentRef as EnvironmentRef
    from bdes_framework.interfaces import FusedEnvironment as FusedEnvironment
    from bdes_framework.interfaces import FusedPolicy as FusedPolicy
    from bdes_framework.interfaces import HasBenchmark as HasBenchmark
    from bdes_framework.interfaces import HasDiagnostics as HasDiagnostics
    from bdes_framework.interfaces import HasHolder as HasHolder
    from bdes_framework.interfaces import HasInstance as HasInstance
    from bdes_framework.interfaces import HasRateAndStart as HasRateAndStart
    from bdes_framework.interfaces import HasUserStates as HasUserStates
    from bdes_framework.interfaces import HasVisitsPerUser as HasVisitsPerUser
    from bdes_framework.interfaces import JobFailure as JobFailure
    from bdes_framework.interfaces import Journal as Journal
    from bdes_framework.interfaces import JournalRef as JournalRef
    from bdes_framework.interfaces import JournalTurn as JournalTurn
    from bdes_framework.interfaces import Kind as Kind
    from bdes_framework.interfaces import LearnsApart as LearnsApart
    from bdes_framework.interfaces import NoiseModel as NoiseModel
    from bdes_framework.interfaces import NoiseModelRef as NoiseModelRef
    from bdes_framework.interfaces import Outcome as Outcome
    from bdes_framework.interfaces import Plan as Plan
    from bdes_framework.interfaces import Planner as Planner
    from bdes_framework.interfaces import PlannerRef as PlannerRef
    from bdes_framework.interfaces import Policy as Policy
    from bdes_framework.interfaces import PolicyContext as PolicyContext
    from bdes_framework.interfaces import PolicyRef as PolicyRef
    from bdes_framework.interfaces import Reference as Reference
    from bdes_framework.interfaces import StationaryPlanner as StationaryPlanner
    from bdes_framework.live.config import LiveConfig as LiveConfig
    from bdes_framework.live.decision import Decision as Decision
    from bdes_framework.live.serve_config import ServeConfig as ServeConfig
    from bdes_framework.live.session import LiveSession as LiveSession
    from bdes_framework.live.session import open_live as open_live
    from bdes_framework.live.status import ArmStatus as ArmStatus
    from bdes_framework.live.status import LiveStatus as LiveStatus
    from bdes_framework.live.status import ShareSpan as ShareSpan
    from bdes_framework.live.tally import ModelStatus as ModelStatus
    from bdes_framework.model.affine import AffineEffect as AffineEffect
    from bdes_framework.model.affine import add_pull as add_pull
    from bdes_framework.model.affine import effect_of_arms as effect_of_arms
    from bdes_framework.model.affine import repeat_effect as repeat_effect
    from bdes_framework.model.affine import repeat_weights as repeat_weights
    from bdes_framework.model.affine import state_decay as state_decay
    from bdes_framework.model.compiling import compiled as compiled
    from bdes_framework.model.decision_table import DecisionTable as DecisionTable
    from bdes_framework.model.events import ArmAdded as ArmAdded
    from bdes_framework.model.events import ArmRetired as ArmRetired
    from bdes_framework.model.events import Decided as Decided
    from bdes_framework.model.events import Event as Event
    from bdes_framework.model.events import ModelMade as ModelMade
    from bdes_framework.model.events import NewUser as NewUser
    from bdes_framework.model.events import Rewarded as Rewarded
    from bdes_framework.model.events import UserForgotten as UserForgotten
    from bdes_framework.model.events import WindowsClosed as WindowsClosed
    from bdes_framework.model.hull import hull_of_arms as hull_of_arms
    from bdes_framework.model.hull import pareto_arms as pareto_arms
    from bdes_framework.model.instance import CrowdProblem as CrowdProblem
    from bdes_framework.model.instance import Instance as Instance
    from bdes_framework.model.instance import Problem as Problem
    from bdes_framework.model.instance import alternating_limit as alternating_limit
    from bdes_framework.model.instance import settling_pulls as settling_pulls
    from bdes_framework.model.instance import state_after_repeating as state_after_repeating
    from bdes_framework.model.packing import pack_model as pack_model
    from bdes_framework.model.packing import unpack_model as unpack_model
    from bdes_framework.model.rounds import Record as Record
    from bdes_framework.model.rounds import World as World
    from bdes_framework.model.rounds import finite_rewards as finite_rewards
    from bdes_framework.model.rounds import play_round as play_round
    from bdes_framework.model.rounds import reward_in_unit_interval as reward_in_unit_interval
    from bdes_framework.model.rounds import sweep_block as sweep_block
    from bdes_framework.model.rounds import sweep_states as sweep_states
    from bdes_framework.model.schedule import Schedule as Schedule
    from bdes_framework.model.schedule import Segment as Segment
    from bdes_framework.planning.lift import Comparison as Comparison
    from bdes_framework.planning.lift import Lift as Lift
    from bdes_framework.planning.lift import Posterior as Posterior
    from bdes_framework.planning.lift import lift as lift
    from bdes_framework.planning.off_policy import OffPolicyCheck as OffPolicyCheck
    from bdes_framework.planning.off_policy import check_off_policy as check_off_policy
    from bdes_framework.planning.plan_report import BurntEnd as BurntEnd
    from bdes_framework.planning.plan_report import PlanReport as PlanReport
    from bdes_framework.planning.plan_report import plan_for_leavers as plan_for_leavers
    from bdes_framework.planning.plan_report import report_plan as report_plan
    from bdes_framework.planning.traffic import estimate_continuation as estimate_continuation
    from bdes_framework.plugin.hookspecs import API_VERSION as API_VERSION
    from bdes_framework.plugin.hookspecs import FinishedCell as FinishedCell
    from bdes_framework.plugin.hookspecs import HookSpecs as HookSpecs
    from bdes_framework.plugin.hookspecs import RunProgress as RunProgress
    from bdes_framework.plugin.hookspecs import hookimpl as hookimpl
    from bdes_framework.plugin.load import PluginsConfig as PluginsConfig
    from bdes_framework.plugin.load import load_plugins as load_plugins
    from bdes_framework.plugin.parameters import Parameter as Parameter
    from bdes_framework.plugin.parameters import parameters_of as parameters_of
    from bdes_framework.plugin.plugins import Plugins as Plugins
    from bdes_framework.plugin.registry import Entry as Entry
    from bdes_framework.plugin.registry import PluginStatus as PluginStatus
    from bdes_framework.plugin.registry import Registrar as Registrar
    from bdes_framework.plugin.validators import validate_integer as validate_integer
    from bdes_framework.plugin.validators import validate_number as validate_number
    from bdes_framework.simulation.crowd import CrowdTrace as CrowdTrace
    from bdes_framework.simulation.crowd import simulate_crowd as simulate_crowd
    from bdes_framework.simulation.crowd_benchmark import CrowdBenchmark as CrowdBenchmark
    from bdes_framework.simulation.crowd_benchmark import crowd_benchmark_of as crowd_benchmark_of
    from bdes_framework.simulation.feedback import Feedback as Feedback
    from bdes_framework.simulation.feedback import FeedbackConfig as FeedbackConfig
    from bdes_framework.simulation.loop import Trace as Trace
    from bdes_framework.simulation.loop import log_checkpoints as log_checkpoints
    from bdes_framework.simulation.loop import simulate as simulate
    from bdes_framework.simulation.regret import benchmark_of as benchmark_of
    from bdes_framework.simulation.regret import des_regret as des_regret
    from bdes_framework.simulation.regret import external_regret as external_regret

_HOMES = {
    "live.config": "LiveConfig",
    "live.decision": "Decision",
    "live.serve_config": "ServeConfig",
    "live.session": "LiveSession open_live",
    "live.status": "ArmStatus LiveStatus ShareSpan",
    "live.tally": "ModelStatus",
    "_version": "__version__",
    "calibration.ctr_curve": "CtrCurve RateCalibration UnidentifiedCurveError calibrate_rate",
    "fitting.parametrisation": "Coordinates RatePrediction",
    "errors": "BdesError ConfigError ContractError ContradictionError InvalidValueError"
    " JournalError Mistake PluginError ServiceError StoreError UnknownNameError",
    "fitting.fisher_scoring": "PosteriorPoint ScoringRules fisher_scoring",
    "fitting.fit": "Forecast fit forecast",
    "fitting.prior": "FitPrior",
    "fitting.result": "Fit ModelScore PlayableArms",
    "fitting.goodness": "GoodnessOfFit",
    "interfaces": "AnytimePlanner Benchmark BuildContext ChangesArms CrowdEnvironment"
    " CrowdEnvironmentRef CrowdPolicy CrowdPolicyContext CrowdPolicyRef Diagnostics"
    " DiagnosticValue Engine EngineRef Environment EnvironmentRef FusedEnvironment FusedPolicy"
    " HasBenchmark HasDiagnostics HasHolder HasInstance HasRateAndStart"
    " HasUserStates HasVisitsPerUser JobFailure Kind"
    " NoiseModel NoiseModelRef Outcome Plan Planner PlannerRef Policy PolicyContext PolicyRef"
    " Reference StationaryPlanner ChoosesApart CrowdDecider CrowdEstimates CrowdLearner Journal"
    " JournalRef JournalTurn LearnsApart",
    "model.affine": "AffineEffect add_pull effect_of_arms repeat_effect repeat_weights state_decay",
    "model.compiling": "compiled",
    "model.decision_table": "DecisionTable",
    "model.events": "ArmAdded ArmRetired Decided Event ModelMade NewUser Rewarded UserForgotten"
    " WindowsClosed",
    "model.hull": "hull_of_arms pareto_arms",
    "model.packing": "pack_model unpack_model",
    "model.rounds": "Record World finite_rewards play_round reward_in_unit_interval sweep_block"
    " sweep_states",
    "fitting.likelihood": "Likelihood fresh_state likelihood_of sweep_information sweep_likelihood"
    " sweep_log_likelihood sweep_log_likelihoods",
    "plugin.load": "PluginsConfig load_plugins",
    "fitting.randomisation": "RandomisationTest randomisation_test",
    "fitting.readers": "read_log",
    "fitting.rows": "BadRows Columns",
    "fitting.suggestion": "SuggestedExperiment suggest_experiment",
    "fitting.log": "UNKNOWN_REWARD Log",
    "plugin.plugins": "Plugins",
    "model.instance": "CrowdProblem Instance Problem alternating_limit settling_pulls"
    " state_after_repeating",
    "plugin.parameters": "Parameter parameters_of",
    "planning.lift": "Comparison Lift Posterior lift",
    "planning.off_policy": "OffPolicyCheck check_off_policy",
    "planning.plan_report": "BurntEnd PlanReport plan_for_leavers report_plan",
    "planning.traffic": "estimate_continuation",
    "plugin.hookspecs": "API_VERSION FinishedCell HookSpecs RunProgress hookimpl",
    "plugin.registry": "Entry PluginStatus Registrar",
    "plugin.validators": "validate_integer validate_number",
    "model.schedule": "Schedule Segment",
    "_internal.display": "Summary",
    "_internal.numbers": "as_integer",
    "_internal.seeding": "Seed",
    "simulation.crowd": "CrowdTrace simulate_crowd",
    "simulation.crowd_benchmark": "CrowdBenchmark crowd_benchmark_of",
    "simulation.feedback": "Feedback FeedbackConfig",
    "simulation.loop": "Trace log_checkpoints simulate",
    "simulation.regret": "benchmark_of des_regret external_regret",
    "experiment.cell": "Cell CellResult Part UserCurves",
    "experiment.curves": "Curves OverUsers",
    "experiment.config": "ExperimentConfig",
    "experiment.file": "Experiment load_experiment",
    "experiment.fit_file": "load_fit load_prior save_fit",
    "experiment.pooling": "Observations Unit Variant",
    "experiment.result_table": "PolicyResults Pooled ResultTable TableColumn",
    "experiment.results": "Run RunBenchmark load_run",
    "experiment.run": "run_experiment",
    "experiment.summary": "CellSummary Estimate Result",
    "_internal.arrays": "FloatArray IntArray",
}

__all__, _resolve, __dir__ = lazy_names(__name__, _HOMES)

if not TYPE_CHECKING:  # a type checker would take any misspelt name for an Any
    __getattr__ = _resolve
