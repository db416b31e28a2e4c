"""The surrogate's part of a posterior file."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.transform import InferenceSpace, ModelSpace, WhitenedSpace
from vsbq.io.files.container import Arrays
from vsbq.io.files.posterior_header import Header, SisterHeader, SurrogateHeader, require
from vsbq.posterior import Posterior
from vsbq.steps.surrogate.model import Surrogate

__all__ = ["pack_lower", "put_together_surrogate", "take_apart_surrogate", "unpack_lower"]

#: What the names of the surrogate's arrays begin with, and those of them that are lower triangles.
PREFIX = "surrogate_"
TRIANGLES = ("chol_kernel", "chol_v")


def take_apart_surrogate(surrogate: Surrogate, posterior: Posterior) -> tuple[SurrogateHeader, Arrays]:
    """The surrogate of a posterior as counts, scalars and arrays."""
    space = surrogate.space.plain
    same = space.bounds == posterior.bounds and space.near == posterior.space.near
    same = same and all(
        np.array_equal(getattr(space, name), getattr(posterior.space, name)) for name in ("edge", "centre", "scale")
    )
    require(same, "its surrogate lives in another space than its mixture")
    parts, scalars = surrogate.packed()
    parts |= {name: pack_lower(parts[name]) for name in TRIANGLES}
    if isinstance(surrogate.space, WhitenedSpace):
        parts["rotation"] = surrogate.space.rotation
    sisters = [_sister_header(parts, f"sister_{number}_") for number in range(len(surrogate.sisters))]
    header = SurrogateHeader(
        inducing=len(parts["inducing"]),
        rotated=isinstance(surrogate.space, WhitenedSpace),
        blocks=len(parts["without"]) if "without" in parts else None,
        sides=len(parts["sides_axes"]) if "sides_axes" in parts else None,
        sisters=tuple(sisters),
        drift="drift_weights" in parts,
        passes=int(scalars.pop("passes")),
        **scalars,
    )
    return header, {PREFIX + name: part for name, part in parts.items()}


def _sister_header(parts: Arrays, head: str) -> SisterHeader:
    """Count and scalars of a sister; the latter are taken out of the arrays."""
    shift, strength = (float(parts.pop(head + name)) for name in ("shift", "strength"))
    return SisterHeader(len(parts[f"{head}inducing"]), shift, strength)


def put_together_surrogate(header: Header, arrays: Arrays, space: InferenceSpace) -> Surrogate | None:
    """The surrogate that `take_apart_surrogate` took apart; None if the file has none."""
    if header.surrogate is None:
        return None
    parts = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
    coordinates: ModelSpace = space
    if header.surrogate.rotated:
        coordinates = WhitenedSpace(space, parts["rotation"])
        require(np.linalg.matrix_rank(parts["rotation"]) == len(header.names), "a rotation is singular")
    parts |= {name: unpack_lower(parts[name], header.surrogate.inducing) for name in TRIANGLES}
    for number, sister in enumerate(header.surrogate.sisters):
        parts |= {f"sister_{number}_{name}": np.array(getattr(sister, name)) for name in ("shift", "strength")}
    positive = all((np.diagonal(parts[name]) > 0).all() for name in TRIANGLES)
    require(positive, "a Cholesky factor of the surrogate has no positive diagonal")
    if header.surrogate.sides is not None:
        sensible = (parts["sides_errors"] >= 0).all() and (parts["sides_distances"] > 0).all()
        require(sensible, "what is doubted beyond the sides of the evaluations makes no sense")
    scalars = {name: getattr(header.surrogate, name) for name in ("offset", "jitter", "tested", "rise", "passes")}
    return Surrogate.unpacked(coordinates, parts, scalars)


def pack_lower(factors: Float[ndarray, "*k d d"]) -> Float[ndarray, "*k t"]:
    """The rows of the lower triangles, one after the other."""
    return factors[..., np.tri(factors.shape[-1], dtype=bool)]


def unpack_lower(packed: Float[ndarray, "*k t"], size: int) -> Float[ndarray, "*k d d"]:
    """Lower triangles from their rows."""
    factors = np.zeros((*packed.shape[:-1], size, size))
    factors[..., np.tri(size, dtype=bool)] = packed
    return factors
