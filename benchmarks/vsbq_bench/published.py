"""The numbers that the paper prints, with the table each is from; and how names and numbers are written.

Its results on the two behavioural models are printed as plots only (Figures 5, 6 and 7, S2 to S4), except for the
timing model at a noise of 3 (Table S5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, isfinite, log10
from types import MappingProxyType
from typing import NamedTuple

__all__ = [
    "EVIDENCES",
    "METHOD_NAMES",
    "NOTHING",
    "PRINTED",
    "PROBLEM_NAMES",
    "RUNTIMES",
    "Evidence",
    "Printed",
    "PrintedRow",
    "PrintedRuntime",
    "base_name",
    "method_name",
    "number",
    "optimiser_name",
    "printed_row",
    "printed_runtime",
    "problem_name",
    "seconds",
]

SIMULATED = "_simulated"
NOTHING = "—"

#: Names as people write them, in the order in which they are listed.
PROBLEM_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "two_moons": "Two Moons",
        "rosenbrock_gaussian": "Rosenbrock–Gaussian",
        "timing": "Bayesian timing",
        "multisensory": "Multisensory causal inference",
        "observer": "Causal inference, 12 parameters",
        "lumpy": "Lumpy",
        "lotka_volterra": "Lotka–Volterra",
    }
)
METHOD_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "vsbq": "VSBQ",
        "vsbq_paper": "VSBQ as printed",
        "nnr": "NNR",
        "nnr_paper": "NNR as printed",
        "bbvi_diagonal": "BBVI, diagonal",
        "bbvi_full": "BBVI, full rank",
        "bbvi_mog5": "BBVI, MoG 5",
        "bbvi_mog50": "BBVI, MoG 50",
        "bbvi_diagonal_paper": "BBVI, diagonal, paper's grid",
        "bbvi_full_paper": "BBVI, full rank, paper's grid",
        "bbvi_mog5_paper": "BBVI, MoG 5, paper's grid",
        "bbvi_mog50_paper": "BBVI, MoG 50, paper's grid",
        "laplace": "Laplace",
        "slice_surrogate": "slice sampling",
        "nnr_slice": "NNR, slice sampling",
        "emcee": "emcee",
        "dynesty": "dynesty",
    }
)
OPTIMISER_NAMES = {"cma": "CMA-ES", "bads": "BADS"}


def base_name(problem: str) -> str:
    """Return the name of a problem whether its data are published or simulated."""
    return problem.removesuffix(SIMULATED)


def problem_name(problem: str) -> str:
    """Return the name of a problem as people write it."""
    name = PROBLEM_NAMES.get(base_name(problem), base_name(problem))
    return f"{name} (simulated data)" if problem.endswith(SIMULATED) else name


def method_name(method: str) -> str:
    """Return the name of a method as people write it."""
    return METHOD_NAMES.get(method, method)


def optimiser_name(optimiser: str) -> str:
    """Return the name of an optimiser as people write it."""
    return OPTIMISER_NAMES.get(optimiser, optimiser)


def number(value: float) -> str:
    """Return two significant digits: 0.020, 14, 8.5e-5, 1.1e3, ∞."""
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.1e}".split("e")
    power = int(exponent)
    if power < -4 or power >= 3:
        return f"{mantissa}e{power}"
    return f"{round(value, 1 - power):.{max(0, 1 - power)}f}"


def seconds(value: float | None) -> str:
    """Return at least two digits, and all before the decimal point."""
    if value is None:
        return NOTHING
    return number(value) if value < 1 else f"{value:.{max(0, 1 - floor(log10(value)))}f}"


# What the paper prints


class Printed(NamedTuple):
    """A median as printed, with the bounds of its 95 % interval where there are any."""

    median: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class PrintedRow:
    """One row of a table of the paper; `evaluations` is the length of the traces, 3000 D."""

    source: str
    problem: str
    method: str
    evaluations: int
    delta_lml: Printed | None
    mmtv: Printed
    gskl: Printed
    noise_sd: float = 0.0
    optimiser: str = "cma"


class PrintedRuntime(NamedTuple):
    """Seconds of wall-clock time in Table S4, as printed: mean ± sd of 5 runs, on a CPU and with a GPU."""

    problem: str
    method: str
    cpu: str
    gpu: str | None


class Evidence(NamedTuple):
    """The log evidence behind the paper's ΔLML, and the one found by importance sampling with its standard error."""

    printed: float
    corrected: float
    corrected_sd: float


EVIDENCES: Mapping[str, Evidence] = MappingProxyType(
    {
        "timing": Evidence(-3860.9567, -3860.7507, 0.0009),
        "multisensory": Evidence(-502.4791, -502.1864, 0.0006),
    }
)


def _two_moons(method: str, delta_lml: Printed, mmtv: Printed, gskl: Printed) -> PrintedRow:
    return PrintedRow(
        source="Table 1",
        problem="two_moons",
        evaluations=6000,
        method=method,
        delta_lml=delta_lml,
        mmtv=mmtv,
        gskl=gskl,
    )


def _rosenbrock(method: str, delta_lml: Printed, mmtv: Printed, gskl: Printed) -> PrintedRow:
    return PrintedRow(
        source="Table 2",
        problem="rosenbrock_gaussian",
        evaluations=18_000,
        method=method,
        delta_lml=delta_lml,
        mmtv=mmtv,
        gskl=gskl,
    )


def _timing(method: str, delta_lml: Printed | None, mmtv: Printed, gskl: Printed) -> PrintedRow:
    return PrintedRow(
        source="Table S5",
        problem="timing",
        evaluations=15_000,
        noise_sd=3.0,
        method=method,
        delta_lml=delta_lml,
        mmtv=mmtv,
        gskl=gskl,
    )


PRINTED: tuple[PrintedRow, ...] = (
    _two_moons("bbvi_diagonal", Printed(0.56, 0.50, 1.2), Printed(0.22, 0.21, 0.37), Printed(7.6, 6.6, 15)),
    _two_moons("bbvi_full", Printed(1.1, 0.57, 1.2), Printed(0.36, 0.21, 0.37), Printed(14, 7.3, 16)),
    _two_moons("bbvi_mog5", Printed(0.44, 0.28, 0.79), Printed(0.21, 0.13, 0.28), Printed(5.7, 0.16, 8.7)),
    _two_moons(
        "bbvi_mog50", Printed(0.0061, 0.0021, 0.015), Printed(0.022, 0.018, 0.031), Printed(0.00033, 0.00012, 0.00088)
    ),
    _two_moons("laplace", Printed(0.43), Printed(0.19), Printed(8.1)),
    _two_moons("nnr", Printed(0.0085, 0.0038, 0.015), Printed(0.021, 0.020, 0.023), Printed(0.00033, 0.00016, 0.00050)),
    _two_moons(
        "vsbq", Printed(0.0017, 0.00057, 0.0026), Printed(0.020, 0.018, 0.021), Printed(8.5e-5, 4.4e-5, 0.00019)
    ),
    _rosenbrock("bbvi_diagonal", Printed(1.2, 1.1, 1.3), Printed(0.23, 0.23, 0.23), Printed(0.55, 0.54, 0.57)),
    _rosenbrock("bbvi_full", Printed(1.1e3, 3.8e2, 2.2e3), Printed(0.66, 0.64, 0.75), Printed(3.2e5, 1.6e4, 1.4e6)),
    _rosenbrock("bbvi_mog5", Printed(0.91, 0.83, 0.98), Printed(0.16, 0.16, 0.17), Printed(0.32, 0.29, 0.35)),
    _rosenbrock("bbvi_mog50", Printed(0.30, 0.21, 0.36), Printed(0.058, 0.057, 0.060), Printed(0.049, 0.046, 0.051)),
    _rosenbrock("laplace", Printed(1.3), Printed(0.24), Printed(0.91)),
    _rosenbrock("nnr", Printed(0.20, 0.12, 0.28), Printed(0.062, 0.054, 0.073), Printed(0.047, 0.037, 0.066)),
    _rosenbrock("vsbq", Printed(0.20, 0.20, 0.20), Printed(0.037, 0.035, 0.038), Printed(0.018, 0.017, 0.018)),
    PrintedRow(
        source="Table S2",
        problem="two_moons",
        optimiser="bads",
        evaluations=6000,
        method="vsbq",
        delta_lml=Printed(0.0010, 0.00041, 0.0017),
        mmtv=Printed(0.020, 0.019, 0.022),
        gskl=Printed(0.00018, 0.00013, 0.00020),
    ),
    PrintedRow(
        source="Table S3",
        problem="rosenbrock_gaussian",
        optimiser="bads",
        evaluations=18_000,
        method="vsbq",
        delta_lml=Printed(0.19, 0.19, 0.20),
        mmtv=Printed(0.038, 0.037, 0.039),
        gskl=Printed(0.018, 0.017, 0.018),
    ),
    _timing("vsbq", Printed(0.21, 0.18, 0.22), Printed(0.044, 0.039, 0.049), Printed(0.0065, 0.0059, 0.0084)),
    _timing("slice_surrogate", None, Printed(0.69, 0.057, 0.92), Printed(5.2e3, 0.088, 5.8e11)),
    _timing("nnr", Printed(0.30, 0.039, 0.44), Printed(0.086, 0.049, 0.12), Printed(0.017, 0.013, 0.076)),
    _timing("nnr_slice", None, Printed(0.81, 0.75, 0.89), Printed(2.4e11, 2.1e3, 1.2e14)),
)

RUNTIMES: tuple[PrintedRuntime, ...] = (
    PrintedRuntime("two_moons", "vsbq", "164 ± 6", "110 ± 5"),
    PrintedRuntime("two_moons", "nnr", "1935 ± 148", "168 ± 19"),
    PrintedRuntime("two_moons", "laplace", "< 1", None),
    PrintedRuntime("rosenbrock_gaussian", "vsbq", "1863 ± 499", "254 ± 4"),
    PrintedRuntime("rosenbrock_gaussian", "nnr", "18155 ± 1740", "638 ± 161"),
    PrintedRuntime("rosenbrock_gaussian", "laplace", "< 1", None),
    PrintedRuntime("timing", "vsbq", "538 ± 66", "198 ± 4"),
    PrintedRuntime("timing", "nnr", "12287 ± 2471", "451 ± 147"),
    PrintedRuntime("timing", "laplace", "38 ± 0", None),
    PrintedRuntime("multisensory", "vsbq", "1167 ± 178", "260 ± 3"),
    PrintedRuntime("multisensory", "nnr", "13745 ± 2103", "547 ± 88"),
    PrintedRuntime("multisensory", "laplace", "2 ± 0", None),
)


def printed_row(problem: str, noise_sd: float, optimiser: str, evaluations: int, method: str) -> PrintedRow | None:
    """Return the row that the paper prints for a cell; variants of a method stand beside the paper's one version."""
    wanted = (problem, noise_sd, optimiser, evaluations, method.removesuffix("_paper"))
    for row in PRINTED:
        if (row.problem, row.noise_sd, row.optimiser, row.evaluations, row.method) == wanted:
            return row
    return None


def printed_runtime(problem: str, method: str) -> PrintedRuntime | None:
    """Return the run time that the paper prints for a method on a problem."""
    for row in RUNTIMES:
        if (row.problem, row.method) == (problem, method.removesuffix("_paper")):
            return row
    return None
