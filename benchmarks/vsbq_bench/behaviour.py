"""The problems with a likelihood of data: interval timing, two observers of headings, predators and prey.

Published behavioural data are not part of the package. They are read from a file, or from the folder that the
environment variable VSBQ_DATA names; without either, a participant is simulated, always the same one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, ndarray
from vsbq_bench import lotka_volterra as predators
from vsbq_bench import multisensory as headings
from vsbq_bench import observer as causes
from vsbq_bench import timing as intervals
from vsbq_bench.problems import Draw, LogDensity, Problem
from vsbq_bench.truth import Truth, data_digest, load_truth, read_truth

__all__ = [
    "DATA_FOLDER",
    "EXPERIMENTS",
    "Experiment",
    "Unsolved",
    "lotka_volterra",
    "multisensory",
    "observer",
    "own_truth_path",
    "timing",
    "unsolved_lotka_volterra",
]

DATA_FOLDER = "VSBQ_DATA"
PARTICIPANT = 0  # the seed of the simulated one


@dataclass(frozen=True, eq=False, kw_only=True)
class Unsolved:
    """A problem whose evidence and posterior are still to be found."""

    name: str
    log_density: LogDensity
    bounds: Float[ndarray, "d 2"] | None
    plausible_bounds: Float[ndarray, "d 2"]
    names: tuple[str, ...]
    draw_prior: Draw
    data_digest: str = ""

    def solved(self, truth: Truth, draw: Draw) -> Problem:
        """Join the problem and its truth; raises ValueError if they do not belong together."""
        truth.check(self.log_density)
        return Problem(
            name=self.name,
            dimension=len(self.names),
            log_density=self.log_density,
            bounds=self.bounds,
            plausible_bounds=self.plausible_bounds,
            names=self.names,
            log_evidence=truth.log_evidence,
            log_evidence_sd=truth.log_evidence_sd,
            draw=draw,
            draw_prior=self.draw_prior,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Experiment:
    """A model of a participant's answers: how to read or simulate trials, and the log density they lead to.

    `table` is the file of the published trials; two models may share it.
    """

    name: str
    table: str
    read: Callable[[Path], Any]
    simulate: Callable[[Generator], Any]
    log_density: Callable[[Any], LogDensity]
    bounds: Float[ndarray, "d 2"]
    plausible_bounds: Float[ndarray, "d 2"]
    names: tuple[str, ...]
    draw_prior: Draw

    def unsolved(self, data: Path | None) -> Unsolved:
        """Return the problem of the data in a file, or of the simulated participant."""
        trials = self.simulate(np.random.default_rng(PARTICIPANT)) if data is None else self.read(data)
        columns = [np.asarray(getattr(trials, column.name), dtype=np.float64) for column in fields(trials)]
        return Unsolved(
            name=f"{self.name}_simulated" if data is None else self.name,
            log_density=self.log_density(trials),
            bounds=self.bounds,
            plausible_bounds=self.plausible_bounds,
            names=self.names,
            draw_prior=self.draw_prior,
            data_digest=data_digest(np.column_stack(columns)),
        )


EXPERIMENTS = (
    Experiment(
        name="timing",
        table="timing.csv",
        read=intervals.read_trials,
        simulate=intervals.simulate_trials,
        log_density=intervals.timing_log_density,
        bounds=intervals.BOUNDS,
        plausible_bounds=intervals.PLAUSIBLE_BOUNDS,
        names=intervals.NAMES,
        draw_prior=intervals.PRIOR.draw,
    ),
    Experiment(
        name="multisensory",
        table="multisensory.csv",
        read=headings.read_trials,
        simulate=headings.simulate_trials,
        log_density=headings.log_density,
        bounds=headings.BOUNDS,
        plausible_bounds=headings.PLAUSIBLE_BOUNDS,
        names=headings.NAMES,
        draw_prior=headings.PRIOR.draw,
    ),
    Experiment(
        name="observer",
        table="multisensory.csv",
        read=headings.read_trials,
        simulate=causes.simulate_trials,
        log_density=causes.log_density,
        bounds=causes.BOUNDS,
        plausible_bounds=causes.PLAUSIBLE_BOUNDS,
        names=causes.NAMES,
        draw_prior=causes.PRIOR.draw,
    ),
)


def timing(data: Path | None = None) -> Problem:
    """Return the Bayesian observer that reproduces time intervals (5 parameters), of published or simulated trials."""
    return _solved(EXPERIMENTS[0], data)


def multisensory(data: Path | None = None) -> Problem:
    """Return the observer that tells whether two headings agree (6 parameters), of published or simulated trials."""
    return _solved(EXPERIMENTS[1], data)


def observer(data: Path | None = None) -> Problem:
    """Return the observer that infers whether two headings have one cause (12 parameters), of the same trials."""
    return _solved(EXPERIMENTS[2], data)


def unsolved_lotka_volterra() -> Unsolved:
    """Return predators and prey without their truth."""
    return Unsolved(
        name="lotka_volterra",
        log_density=predators.log_density,
        bounds=predators.BOUNDS,
        plausible_bounds=predators.PLAUSIBLE_BOUNDS,
        names=predators.NAMES,
        draw_prior=predators.draw_prior,
    )


def lotka_volterra() -> Problem:
    """Return the 8 parameters of predators and prey behind 20 years of counted pelts."""
    return unsolved_lotka_volterra().solved(load_truth("lotka_volterra"), partial(_draw, "lotka_volterra"))


def _solved(experiment: Experiment, data: Path | None) -> Problem:
    data = data or _published(experiment)
    problem = experiment.unsolved(data)
    truth = load_truth(problem.name)
    if problem.data_digest == truth.data_digest:
        return problem.solved(truth, partial(_draw, problem.name))
    if data is None:
        raise ValueError(
            f"the simulated participant of {experiment.name} is not the one whose truth is stored: this version of "
            "numpy draws other random numbers; benchmarks/make_truth.py makes the truth of the new one"
        )
    own = own_truth_path(experiment, data)
    if not own.is_file():
        raise ValueError(
            f"no truth is stored for the data in {data}: they are not the published ones. "
            f"`python benchmarks/make_truth.py {experiment.name} --data {data}` samples their posterior into {own}"
        )
    truth = read_truth(own)
    if problem.data_digest != truth.data_digest:
        raise ValueError(f"the truth in {own} belongs to other data than those in {data}; make it again")
    return replace(problem, name=f"{problem.name}_{problem.data_digest[:8]}").solved(truth, truth.draw)


def _published(experiment: Experiment) -> Path | None:
    folder = os.environ.get(DATA_FOLDER)
    if not folder:
        return None
    path = Path(folder) / experiment.table
    if not path.is_file():
        raise ValueError(f"there is no {path}, and {DATA_FOLDER} says it should be there; unset it to simulate")
    return path


def own_truth_path(experiment: Experiment, data: Path) -> Path:
    """Return where the truth of data that are not the published ones is kept: beside them.

    Of two models with the same table, the one that the table is not named after adds its name.
    """
    named_after = experiment.table == f"{experiment.name}.csv"
    return data.with_suffix(".truth.npz" if named_after else f".{experiment.name}.truth.npz")


def _draw(name: str, n: int, rng: Generator) -> Float[ndarray, "n d"]:
    """Draw from a stored truth, by name: a problem sent to another process does not carry the draws."""
    return load_truth(name).draw(n, rng)
