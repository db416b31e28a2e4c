"""Models as scientists write them, each with a stored truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from vsbq_bench.cases.science import behaviour, hierarchies, life, physics, regressions
from vsbq_bench.cases.science.model import Model, solved
from vsbq_bench.cases.subjects import SCIENCE, Subject, register
from vsbq_bench.problems import Problem

__all__ = ["MODELS"]


class _Entry(NamedTuple):
    make: Callable[[], Model]
    kind: str
    hard: bool = False


_ENTRIES = {
    "psychometric": _Entry(behaviour.psychometric, "bounded"),
    "choice_history": _Entry(behaviour.choice_history, "bounded"),
    "q_learning": _Entry(behaviour.q_learning, "bounded"),
    "wald": _Entry(behaviour.wald, "edge", hard=True),
    "epidemic": _Entry(life.epidemic, "ridge"),
    "fitzhugh_nagumo": _Entry(life.fitzhugh_nagumo, "correlated"),
    "dose_response": _Entry(life.dose_response, "skewed"),
    "gompertz": _Entry(life.gompertz, "curved"),
    "michaelis_menten": _Entry(life.michaelis_menten, "skewed"),
    "capture_recapture": _Entry(life.capture_recapture, "cliff", hard=True),
    "two_exponentials": _Entry(physics.two_exponentials, "modes", hard=True),
    "damped_oscillator": _Entry(physics.damped_oscillator, "modes", hard=True),
    "dead_time": _Entry(physics.dead_time, "ridge"),
    "t2_relaxation": _Entry(physics.t2_relaxation, "skewed"),
    "supernovae": _Entry(physics.supernovae, "ridge"),
    "on_off": _Entry(physics.on_off, "bounded"),
    "radiocarbon": _Entry(physics.radiocarbon, "modes", hard=True),
    "logistic_cauchy": _Entry(regressions.logistic_cauchy, "skewed"),
    "robust_regression": _Entry(regressions.robust_regression, "skewed"),
    "zero_inflated": _Entry(regressions.zero_inflated, "gaussian"),
    "ordinal_probit": _Entry(regressions.ordinal_probit, "cliff", hard=True),
    "gaussian_mixture": _Entry(regressions.gaussian_mixture, "modes", hard=True),
    "gp_hyperparameters": _Entry(regressions.gp_hyperparameters, "curved"),
    "ar2": _Entry(regressions.ar2, "cliff", hard=True),
    "change_point": _Entry(regressions.change_point, "cliff", hard=True),
    "eight_schools": _Entry(hierarchies.eight_schools, "high_dimension"),
    "centred_schools": _Entry(hierarchies.centred_schools, "funnel", hard=True),
    "item_response": _Entry(hierarchies.item_response, "curved", hard=True),
    "volatility": _Entry(hierarchies.volatility, "funnel", hard=True),
    "paired_comparison": _Entry(hierarchies.paired_comparison, "high_dimension"),
}

MODELS: Mapping[str, Callable[[], Model]] = MappingProxyType({name: entry.make for name, entry in _ENTRIES.items()})


def _maker(name: str) -> Callable[[], Problem]:
    if name == "centred_schools":
        return hierarchies.solved_centred_schools
    return partial(solved, MODELS[name])


register(SCIENCE, (Subject(name, entry.kind, True, entry.hard, _maker(name)) for name, entry in _ENTRIES.items()))
