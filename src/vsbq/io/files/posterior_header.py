"""The header of a posterior file, the arrays that go with it, and what must be true of the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from vsbq.history import Elbo, Evidence, History
from vsbq.io.files.container import Arrays, Broken
from vsbq.posterior.diagnosis.finding import LEVELS, Diagnosis
from vsbq.steps.edges import DRAWS

__all__ = [
    "EvaluationsHeader",
    "Header",
    "Origin",
    "RefinedHeader",
    "SisterHeader",
    "SupportHeader",
    "SurrogateHeader",
    "as_of_now",
    "check_numbers",
    "require",
    "shapes_of",
]


class SisterHeader(NamedTuple):
    """Counts and scalars of a sister of the surrogate."""

    inducing: int
    shift: float
    strength: float = 1.0  # unknown in older files


class SurrogateHeader(NamedTuple):
    """Counts and scalars of the surrogate."""

    inducing: int
    rotated: bool
    offset: float
    jitter: float
    overconfidence: float = 1.0  # in files of version 1, where variances were multiplied by its square
    blocks: int | None = None
    tested: float = 1.0
    sides: int | None = None
    sisters: tuple[SisterHeader, ...] = ()
    rise: float = 0.0
    drift: bool = False
    passes: int = 0  # unknown in older files


class RefinedHeader(NamedTuple):
    """Counts and scalars of the refined draws."""

    rows: int
    most_variance: float
    most_mean: float
    most_rise: float = 0.0
    guessed_variance: float | None = None  # None where it is infinite
    noisy: bool = False


class SupportHeader(NamedTuple):
    """How many surfaces bound the support; `stand_ins` are in place of a function of the user, None without one."""

    surfaces: int
    stand_ins: int | None = None


class EvaluationsHeader(NamedTuple):
    """What there is of the evaluations."""

    rows: int
    noisy: bool
    plausible: bool
    notes: tuple[str, ...]
    prior: bool = False


class Origin(NamedTuple):
    """What `vsbq.fit_many` made a posterior from, apart from the evaluations: the name of the fit, a digest of the
    settings, and the seed of all fits. `warnings` are those of the fit."""

    name: str
    settings: str
    seed: int
    warnings: tuple[str, ...] = ()


class Header(NamedTuple):
    """The JSON object of a file; fields that came later have defaults."""

    format: str
    format_version: int
    vsbq_version: str
    names: tuple[str, ...]
    components: int
    offset: float
    elbo: Elbo
    surrogate: SurrogateHeader | None
    evaluations: EvaluationsHeader | None
    history: History | None
    evidence: Evidence | None = None
    refined: RefinedHeader | None = None
    tag: str | None = None
    far_bounds: bool = False
    support: SupportHeader | None = None
    origin: Origin | None = None
    diagnosis: Diagnosis | None = None


def as_of_now(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a header of any format version, as this one has them.

    Version 1 had two other parts of the error of the evidence; the names are those of what took their place.
    """
    evidence = fields.get("evidence")
    if fields.get("format_version") != 1 or evidence is None:
        return fields
    names = {"beyond": "sides", "zeros": "support_sd"}
    return fields | {"evidence": {names.get(name, name): value for name, value in evidence.items()}}


def shapes_of(header: Header) -> dict[str, tuple[int, ...]]:
    """The arrays that a file with this header holds."""
    d, k = len(header.names), header.components
    shapes: dict[str, tuple[int, ...]]
    shapes = {f"space_{name}": (d,) for name in ("lower", "upper", "edge", "centre", "scale")}
    if header.far_bounds:
        shapes |= {"space_near_lower": (d,), "space_near_upper": (d,)}
    shapes |= {"mixture_log_weights": (k,), "mixture_means": (k, d), "mixture_trils": (k, d * (d + 1) // 2)}
    if header.support is not None:
        shapes |= _shapes_of_support(header.support, d)
    if header.surrogate is not None:
        shapes |= _shapes_of_surrogate(header.surrogate, d)
    if header.refined is not None:
        r = header.refined.rows
        shapes |= {"refined_points": (r, d), "refined_weights": (r,), "refined_mixture_weights": (r,)}
        shapes |= {"region_lower": (d,), "region_upper": (d,)}
    if header.evaluations is not None:
        n = header.evaluations.rows
        shapes |= {"evaluations_points": (n, d), "evaluations_log_density": (n,)}
        if header.evaluations.noisy:
            shapes["evaluations_sd"] = (n,)
        if header.evaluations.prior:
            shapes["evaluations_log_prior"] = (n,)
        if header.evaluations.plausible:
            shapes |= {"evaluations_plausible_lower": (d,), "evaluations_plausible_upper": (d,)}
    return shapes


def _shapes_of_support(header: SupportHeader, d: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for head, count in (("support", header.surfaces), ("stand_in", header.stand_ins)):
        if count:
            features = 1 + d + d * (d + 1) // 2
            shapes |= {f"{head}_centre": (d,), f"{head}_root": (d, d), f"{head}_surfaces": (count, features, DRAWS)}
    return shapes


def _shapes_of_surrogate(header: SurrogateHeader, d: int) -> dict[str, tuple[int, ...]]:
    m = header.inducing
    shapes: dict[str, tuple[int, ...]]
    shapes = {"surrogate_hyperparameters": (3 * d + 2,), "surrogate_inducing": (m, d), "surrogate_weights": (m,)}
    shapes |= {f"surrogate_{name}": (m * (m + 1) // 2,) for name in ("chol_kernel", "chol_v")}
    if header.rotated:
        shapes["surrogate_rotation"] = (d, d)
    if header.blocks is not None:
        shapes["surrogate_without"] = (header.blocks, m)
    if header.sides is not None:
        s = header.sides
        shapes |= {"surrogate_sides_axes": (s, d)}
        shapes |= {f"surrogate_sides_{name}": (s,) for name in ("ends", "errors", "distances")}
    if header.drift:
        features = 1 + d + d * (d + 1) // 2
        shapes |= {"surrogate_drift_weights": (m, features), "surrogate_drift_root": (features, features)}
    for number, sister in enumerate(header.sisters):
        head, m = f"surrogate_sister_{number}", sister.inducing
        shapes |= {f"{head}_turn": (d, d), f"{head}_hyperparameters": (3 * d + 2,)}
        shapes |= {f"{head}_inducing": (m, d), f"{head}_weights": (m,)}
    return shapes


# What must be true of the numbers


def require(fine: bool | np.bool_, trouble: str) -> None:
    """Refuse numbers that make no posterior."""
    if not fine:
        raise Broken(f"{trouble}. The numbers make no posterior; take another copy, or fit again.")


def check_numbers(header: Header, arrays: Arrays) -> None:
    """Refuse a file whose numbers make no posterior, whatever its shapes."""
    may_be_infinite = {"space_lower", "space_upper", "space_near_lower", "space_near_upper", "mixture_log_weights"}
    may_be_infinite |= {"evaluations_log_density", "evaluations_log_prior"}
    for name, array in arrays.items():
        fine = ~np.isnan(array) if name in may_be_infinite else np.isfinite(array)
        require(fine.all(), f"'{name}' holds NaN or infinity")
    scalars = list(_scalars((header.offset, header.elbo, header.surrogate, header.evidence, header.refined)))
    require(np.isfinite(scalars).all(), "the ELBO, the evidence, an offset, the jitter or a shift is not finite")
    require(header.elbo.sd >= 0, "the sd of the ELBO is negative")
    require(header.evidence is None or min(header.evidence[1:]) >= 0, "an error of the evidence is negative")
    if header.diagnosis is not None:
        levels = {header.diagnosis.verdict, *(finding.level for finding in header.diagnosis.findings)}
        require(levels <= set(LEVELS), "its diagnosis has a level that does not exist")
    require((arrays["space_lower"] < arrays["space_upper"]).all(), "a lower bound is not below its upper bound")
    if header.far_bounds:
        ordered = arrays["space_near_lower"] < arrays["space_near_upper"]
        require(ordered.all(), "a lower bound of 'space_near' is not below its upper bound")
    require((arrays["space_edge"] >= 0).all(), "'space_edge' is negative")
    require((arrays["space_scale"] > 0).all(), "'space_scale' is not positive")
    total = np.exp(np.minimum(arrays["mixture_log_weights"], 1.0)).sum()
    require(abs(total - 1) < 1e-6, "the weights of the mixture don't sum to one")
    if header.evaluations is not None:
        require((arrays["evaluations_log_density"] < np.inf).all(), "a log density is +inf")
        prior = arrays.get("evaluations_log_prior", np.zeros(1))
        require((prior < np.inf).all(), "a log prior is +inf")
        require((np.isneginf(arrays["evaluations_log_density"]) | ~np.isneginf(prior)).all(), "a prior is zero alone")
        require((arrays.get("evaluations_sd", np.zeros(1)) >= 0).all(), "a noise sd is negative")


def _scalars(part: Any) -> Iterator[float]:
    """All numbers of a tuple and of the tuples in it."""
    if isinstance(part, tuple):
        for each in part:
            yield from _scalars(each)
    elif part is not None:
        yield part
