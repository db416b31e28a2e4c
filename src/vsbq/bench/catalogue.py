"""The problems and methods of the benchmark by name: the one place to add to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from vsbq.bench.behaviour import lotka_volterra, multisensory, timing
from vsbq.bench.lumpy import lumpy
from vsbq.bench.methods.bbvi import BBVI
from vsbq.bench.methods.laplace import laplace
from vsbq.bench.methods.recycle import recycle
from vsbq.bench.methods.samplers import dynesty_sampler, emcee_sampler
from vsbq.bench.methods.slice_surrogate import slice_surrogate
from vsbq.bench.problems import Problem, rosenbrock_gaussian, two_moons
from vsbq.bench.task import Answer, Task
from vsbq.bench.zoo import ZOO
from vsbq.fit import Settings

__all__ = ["METHODS", "PROBLEMS", "Method"]

Method = Callable[[Task], Answer]

PROBLEMS: Mapping[str, Callable[[], Problem]] = MappingProxyType(
    {
        "two_moons": two_moons,
        "rosenbrock_gaussian": rosenbrock_gaussian,
        "timing": timing,
        "multisensory": multisensory,
        "lumpy": lumpy,
        "lotka_volterra": lotka_volterra,
        **ZOO,
    }
)

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "vsbq": partial(recycle, settings=Settings()),
        "vsbq_paper": partial(recycle, settings=Settings.paper()),
        "laplace": laplace,
        **BBVI,
        "slice_surrogate": slice_surrogate,
        "emcee": emcee_sampler,
        "dynesty": dynesty_sampler,
    }
)
