"""The problems and methods of the benchmark by name: the one place to add to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from vsbq.settings import Settings
from vsbq_bench.ablation import STEPS
from vsbq_bench.behaviour import lotka_volterra, multisensory, observer, timing
from vsbq_bench.lumpy import lumpy
from vsbq_bench.methods.bbvi import BbviSettings, bbvi
from vsbq_bench.methods.control import few_inducing, narrow_region
from vsbq_bench.methods.laplace import laplace
from vsbq_bench.methods.nnr import NnrSettings, nnr
from vsbq_bench.methods.oracle import oracle
from vsbq_bench.methods.recycle import recycle
from vsbq_bench.methods.samplers import dynesty_sampler, emcee_sampler
from vsbq_bench.methods.slice_surrogate import slice_surrogate
from vsbq_bench.problems import Problem, rosenbrock_gaussian, two_moons
from vsbq_bench.task import Answer, Task
from vsbq_bench.zoo import ZOO

__all__ = ["METHODS", "PROBLEMS", "Method"]

Method = Callable[[Task], Answer]

PROBLEMS: Mapping[str, Callable[[], Problem]] = MappingProxyType(
    {
        "two_moons": two_moons,
        "rosenbrock_gaussian": rosenbrock_gaussian,
        "timing": timing,
        "multisensory": multisensory,
        "observer": observer,
        "lumpy": lumpy,
        "lotka_volterra": lotka_volterra,
        **ZOO,
    }
)

FAMILIES: Mapping[str, BbviSettings] = MappingProxyType(
    {
        "bbvi_diagonal": BbviSettings(family="diagonal"),
        "bbvi_full": BbviSettings(family="full"),
        "bbvi_mog5": BbviSettings(family="mixture", components=5),
        "bbvi_mog50": BbviSettings(family="mixture", components=50),
    }
)

# Under "_paper" stand the settings of the paper, under the plain name what two cores can afford: for black-box
# variational inference the same grid without gradients from single draws, which take most of its time.
METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "vsbq": partial(recycle, settings=Settings()),
        "vsbq_paper": partial(recycle, settings=Settings.paper()),
        **{name: partial(recycle, settings=settings) for name, settings in STEPS.items()},
        "oracle": oracle,
        "control_few_inducing": few_inducing,
        "control_narrow_region": narrow_region,
        "laplace": laplace,
        **{name: partial(bbvi, settings=replace(choice, samples=(10, 100))) for name, choice in FAMILIES.items()},
        **{f"{name}_paper": partial(bbvi, settings=choice) for name, choice in FAMILIES.items()},
        "nnr": partial(nnr, settings=NnrSettings.two_cores()),
        "nnr_paper": partial(nnr, settings=NnrSettings()),
        "slice_surrogate": slice_surrogate,
        "emcee": emcee_sampler,
        "dynesty": dynesty_sampler,
    }
)
