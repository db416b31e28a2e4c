"""The header of a posterior file, and the arrays that go with it."""

from __future__ import annotations

from typing import NamedTuple

from vsbq.history import Elbo, Evidence, History

__all__ = ["EvaluationsHeader", "Header", "RefinedHeader", "SurrogateHeader", "shapes_of"]


class SurrogateHeader(NamedTuple):
    """Counts and scalars of the surrogate."""

    inducing: int
    rotated: bool
    offset: float
    jitter: float
    overconfidence: float = 1.0
    blocks: int | None = None
    tested: float = 1.0


class RefinedHeader(NamedTuple):
    """Counts and scalars of the refined draws."""

    rows: int
    most_variance: float
    most_mean: float
    most_rise: float = 0.0


class EvaluationsHeader(NamedTuple):
    """What there is of the evaluations."""

    rows: int
    noisy: bool
    plausible: bool
    notes: tuple[str, ...]
    prior: bool = False


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


def shapes_of(header: Header) -> dict[str, tuple[int, ...]]:
    """The arrays that a file with this header holds."""
    d, k = len(header.names), header.components
    shapes: dict[str, tuple[int, ...]]
    shapes = {f"space_{name}": (d,) for name in ("lower", "upper", "edge", "centre", "scale")}
    if header.far_bounds:
        shapes |= {"space_near_lower": (d,), "space_near_upper": (d,)}
    shapes |= {"mixture_log_weights": (k,), "mixture_means": (k, d), "mixture_trils": (k, d * (d + 1) // 2)}
    if header.surrogate is not None:
        m = header.surrogate.inducing
        shapes |= {"surrogate_hyperparameters": (3 * d + 2,), "surrogate_inducing": (m, d), "surrogate_weights": (m,)}
        shapes |= {f"surrogate_{name}": (m * (m + 1) // 2,) for name in ("chol_kernel", "chol_v")}
        if header.surrogate.rotated:
            shapes["surrogate_rotation"] = (d, d)
        if header.surrogate.blocks is not None:
            shapes["surrogate_without"] = (header.surrogate.blocks, m)
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
