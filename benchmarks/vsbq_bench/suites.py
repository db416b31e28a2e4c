"""What a suite consists of: blocks of problems, noise, traces, methods and seeds, multiplied out into jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

from vsbq_bench.ablation import STEPS
from vsbq_bench.zoo import ZOO

__all__ = ["CASE_SUITES", "SUITES", "Block", "CaseBlock", "Job", "jobs_of"]

OURS = ("vsbq", "vsbq_paper")
SYNTHETIC = ("two_moons", "rosenbrock_gaussian")
BEHAVIOUR = ("timing", "multisensory")
FURTHER = ("lumpy", "lotka_volterra")
ABLATION = tuple(STEPS)
CASE_ABLATION = ("ablation_unturned", "ablation_unpassed", "ablation_unshaped", "ablation_alone")
NOISE_LEVELS = (0.0, 1.0, 3.0, 5.0, 7.0)
FEWER = (1000, 2000)
BBVI = ("bbvi_diagonal", "bbvi_full", "bbvi_mog5", "bbvi_mog50")


class Job(NamedTuple):
    """One run to be made."""

    problem: str
    noise_sd: float
    optimiser: str
    evaluations_per_dimension: int
    method: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Block:
    """Everything in it is combined with everything else in it."""

    problems: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    noise_sds: tuple[float, ...] = (0.0,)
    optimisers: tuple[str, ...] = ("cma",)
    evaluations_per_dimension: tuple[int, ...] = (3000,)

    def jobs(self) -> Iterator[Job]:
        """Yield all jobs, seed by seed and method by method, so that neighbours do not wait for the same trace."""
        traces = (self.problems, self.noise_sds, self.optimisers, self.evaluations_per_dimension)
        for seed, method, trace in product(range(self.seeds), self.methods, product(*traces)):
            yield Job(*trace, method, seed)


SUITES: Mapping[str, tuple[Block, ...]] = MappingProxyType(
    {
        # The fast methods.
        "small": (
            Block(problems=SYNTHETIC, methods=(*OURS, "laplace", "dynesty"), seeds=2),
            Block(problems=("timing",), methods=(*OURS, "laplace"), noise_sds=(3.0,), seeds=2),
        ),
        # The paper's tables and figures. Laplace, emcee and dynesty use the exact density whatever the noise.
        "paper": (
            Block(problems=SYNTHETIC, methods=OURS, seeds=10),
            Block(problems=BEHAVIOUR, methods=OURS, noise_sds=NOISE_LEVELS, seeds=10),
            Block(problems=(*SYNTHETIC, *BEHAVIOUR), methods=("laplace", "emcee", "dynesty"), seeds=3),
            Block(problems=SYNTHETIC, methods=(*BBVI, "slice_surrogate"), seeds=3),
            Block(problems=BEHAVIOUR, methods=(*BBVI, "slice_surrogate"), noise_sds=(0.0, 3.0), seeds=3),
            Block(problems=SYNTHETIC, methods=("nnr",), seeds=1),
            Block(problems=BEHAVIOUR, methods=("nnr",), noise_sds=(0.0, 3.0), seeds=1),
            Block(problems=SYNTHETIC, methods=OURS, evaluations_per_dimension=FEWER, seeds=5),
            Block(problems=("timing",), methods=OURS, noise_sds=(3.0,), evaluations_per_dimension=FEWER, seeds=5),
            Block(problems=("multisensory",), methods=OURS, evaluations_per_dimension=FEWER, seeds=5),
            Block(problems=SYNTHETIC, methods=OURS, optimisers=("bads",), seeds=3),
            Block(problems=BEHAVIOUR, methods=OURS, optimisers=("bads",), noise_sds=(0.0, 3.0), seeds=3),
        ),
        # What each part of the default brings: the default without it.
        "ablation": (
            Block(problems=SYNTHETIC, methods=ABLATION, seeds=3),
            Block(problems=BEHAVIOUR, methods=ABLATION, noise_sds=(0.0, 3.0), seeds=3),
            # What whitening is for: a curved posterior whose axes are not those of the parameters.
            Block(problems=("lotka_volterra",), methods=("ablation_unturned",), seeds=3),
        ),
        # What noise allows, beside the default's lines of the suite of the paper.
        "oracle": (Block(problems=BEHAVIOUR, methods=("oracle",), noise_sds=NOISE_LEVELS[1:], seeds=5),),
        # Beyond the paper.
        "further": (
            Block(problems=FURTHER, methods=("vsbq",), seeds=10),
            Block(problems=FURTHER, methods=("vsbq_paper",), seeds=3),
        ),
        # As many parameters as the method is meant for, and a model of behaviour.
        "observer": (
            Block(problems=("observer",), methods=("vsbq",), seeds=3),
            Block(problems=("observer",), methods=("vsbq_paper",), seeds=1),
        ),
        # Other kinds of targets: bounded, correlated, heavy-tailed, with several modes, of one and of many parameters.
        "zoo": (Block(problems=tuple(ZOO), methods=("vsbq",), noise_sds=(0.0, 2.0), seeds=3),),
        # On an otherwise idle machine, one run at a time: what the table of run times is made from.
        "runtime": (
            Block(problems=SYNTHETIC, methods=(*OURS, "laplace"), seeds=3),
            Block(problems=("timing",), methods=(*OURS, "laplace"), noise_sds=(3.0,), seeds=3),
            Block(problems=("multisensory",), methods=(*OURS, "laplace"), seeds=3),
        ),
    }
)


class CaseBlock(NamedTuple):
    """Halves of the cases that nobody tuned on, each a problem with a trace of its own, and what is run on them."""

    halves: tuple[str, ...]
    methods: tuple[str, ...] = ("vsbq",)
    once: bool = False  # the first seed only
    noisy: bool = False  # the cases whose evaluations carry noise only


CASE_SUITES: Mapping[str, CaseBlock] = MappingProxyType(
    {
        "zoo-development": CaseBlock(("development",)),
        "zoo-validation": CaseBlock(("validation",)),
        # The default made worse on purpose, which a comparison has to see. Nothing is chosen by it, so it may use both.
        "zoo-control": CaseBlock(("development", "validation"), ("control_few_inducing", "control_narrow_region")),
        # The default without one of its parts.
        "zoo-ablation": CaseBlock(("validation",), CASE_ABLATION, once=True),
        # What noise allows.
        "zoo-oracle": CaseBlock(("development", "validation"), ("oracle",), noisy=True),
    }
)


def jobs_of(suite: str) -> list[Job]:
    """Return the jobs of a suite without repetition, seed by seed, so that early results cover every cell."""
    if suite in CASE_SUITES:
        jobs = _case_jobs(CASE_SUITES[suite])
    else:
        jobs = [job for block in SUITES[suite] for job in block.jobs()]
    return sorted(dict.fromkeys(jobs), key=lambda job: job.seed)


def _case_jobs(block: CaseBlock) -> list[Job]:
    from vsbq_bench.cases.cases import seeds_of

    return [
        Job(case.name, case.noise_sd, case.optimiser, case.evaluations_per_dimension, method, seed)
        for half in block.halves
        for method, (case, seed) in product(block.methods, seeds_of(half))
        if (seed == 0 or not block.once) and (case.noisy or not block.noisy)
    ]
