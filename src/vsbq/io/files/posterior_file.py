"""A posterior in one file: plain arrays and a JSON header in NumPy's npz format, without pickles.

Everything is float64 (little endian, C order), except `header`, the UTF-8 bytes of a JSON object. With D parameters,
K components, M inducing points and N evaluations the arrays are:

    space_lower, space_upper (D)       hard bounds, infinite where open
    space_edge, space_centre, space_scale (D)
                                       from the user's x to u: v = Φ⁻¹((x − lower) / (upper − lower)) with two bounds,
                                       log(x − lower) or −log(upper − x) with one, x with none; u = (v − centre) / scale
                                       (points closer to a bound than `edge` are first moved to that distance)
    space_near_lower, space_near_upper (D)
                                       if they are there, the bounds that make v: infinite where a bound is too far
                                       from all evaluations to matter
    mixture_log_weights (K), mixture_means (K, D), mixture_trils (K, D(D+1)/2)
                                       the posterior: a mixture of Gaussians in u; each Cholesky factor as the rows of
                                       its lower triangle, one after the other
    surrogate_hyperparameters (3D+2)   log length scales, log output scale, top, centre and log widths of the mean
    surrogate_inducing (M, D), surrogate_weights (M), surrogate_chol_kernel, surrogate_chol_v (M(M+1)/2)
    surrogate_rotation (D, D)          if there is one, the surrogate's coordinates are rotation · u
    surrogate_without (B, M)           changes of the weights if a block of evaluations is left out, one row for each
    surrogate_sides_axes (S, D), surrogate_sides_ends, surrogate_sides_errors, surrogate_sides_distances (S)
                                       where the better evaluations end along each axis, by how much the outermost ones
                                       are missed if they are left out, and how far beyond the others they are
    surrogate_drift_weights (M, F), surrogate_drift_root (F, F)
                                       what is open of the mean, for the F = 1 + D + D(D+1)/2 quadratics
    surrogate_sister_0_turn (D, D), surrogate_sister_0_hyperparameters (3D+2), surrogate_sister_0_inducing (M₀, D),
    surrogate_sister_0_weights (M₀)    another sparse GP, its coordinates turn · those of the surrogate; the surrogate's
                                       mean is the average over all of them. More sisters have higher numbers
    support_centre (D), support_root (D, D), support_surfaces (E, F, 64)
                                       where the density is not zero: with features φ of (u − centre) root, which are 1,
                                       the D coordinates and half of their D(D+1)/2 products, the product over E
                                       surfaces of logistic(φ · coefficients), averaged over 64 draws of the latter
    stand_in_centre, stand_in_root, stand_in_surfaces
                                       the same, in place of a function of the user, which a file can't hold
    refined_points (R, D), refined_weights (R), refined_mixture_weights (R)
                                       draws in u that represent the refined posterior with the first weights and the
                                       mixture with the second; both sum to one
    region_lower, region_upper (D)     box of the surrogate's coordinates in which it is trusted
    evaluations_points (N, D), evaluations_log_density (N), evaluations_sd (N), evaluations_log_prior (N)
    evaluations_plausible_lower, evaluations_plausible_upper (D)

A compact file has only the `space_`, `mixture_`, `support_` and `stand_in_` arrays: its posterior is the mixture, cut
where the density is zero, with the refined evidence. Arrays of what there is not are left out.
`evaluations_sd`, `evaluations_log_prior` and the plausible bounds are there only if they were given. The header holds
`format`, `format_version`, `vsbq_version`, `names`, `components` (K), `offset` (added to `elbo.value` it is the
evidence lower bound, to `evidence.value` the log evidence), `elbo`, `surrogate`, `evaluations`, `history`, `evidence`,
`refined`, `tag`, `far_bounds`, `support`, `origin`, `diagnosis` (verdict and findings; null in earlier files) and
`checksum`: the SHA-256 of `json.dumps(header without checksum, sort_keys=True)` followed by the bytes of the arrays in
the order of their names. It finds damage; it is no signature.
Draws with NumPy alone:

    import json, numpy as np
    with np.load("posterior.npz") as file:
        header = json.loads(file["header"].tobytes())
        weights, means = np.exp(file["mixture_log_weights"]), file["mixture_means"]
        centre, scale = file["space_centre"], file["space_scale"]
        trils = np.zeros((*means.shape, means.shape[1]))
        trils[:, np.tri(means.shape[1], dtype=bool)] = file["mixture_trils"]
    rng = np.random.default_rng()
    k = rng.choice(len(weights), 1000, p=weights / weights.sum())
    v = centre + scale * (means[k] + np.einsum("nij,nj->ni", trils[k], rng.standard_normal(means[k].shape)))
    # v is x for open parameters; undo the log or the probit for the others; reject what is outside the support

Version 1 had no support, no sides and no sisters; it is read. A later version may add a field to the header's tuples
(history, elbo) only with a default; any other change raises `VERSION`.
"""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import numpy as np

from vsbq._version import __version__
from vsbq.data import validation as door
from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.data.tags import read_tag
from vsbq.data.transform import InferenceSpace
from vsbq.errors import VsbqError
from vsbq.io.files.container import Arrays, Broken, header_of, pack, read, write
from vsbq.io.files.posterior_header import (
    EvaluationsHeader,
    Header,
    Origin,
    RefinedHeader,
    as_of_now,
    check_numbers,
    require,
    shapes_of,
)
from vsbq.io.files.posterior_support import put_together_support, take_apart_support, told_again
from vsbq.io.files.posterior_surrogate import pack_lower, put_together_surrogate, take_apart_surrogate, unpack_lower
from vsbq.numerics.mixture import Mixture
from vsbq.posterior import Posterior
from vsbq.steps.model import LogDensityModel
from vsbq.steps.refine import Refined
from vsbq.steps.region import TrustedRegion
from vsbq.steps.support import InSupport, Support
from vsbq.steps.surrogate.model import Surrogate

__all__ = ["PosteriorFileError", "load", "load_with_origin", "packed", "save"]

FORMAT = "vsbq posterior"
VERSION = 2


class PosteriorFileError(VsbqError, ValueError):
    """The file holds no posterior that can be loaded, or the posterior can't be saved; the message says why."""


def save(posterior: Posterior, path: str | os.PathLike[str], *, compact: bool = False, overwrite: bool = False) -> Path:
    """Write a posterior to one npz file and return its path, with ".npz" added if it had no suffix.

    `compact` leaves out the surrogate, the evaluations and the refined draws: what is loaded from it is the mixture,
    with the refined evidence. The file appears under its name only when it is complete. A function that was told as
    `support` is not in it, only surfaces learnt from its answers; `load` takes the function again.

    An earlier posterior of the same parameters is replaced, so that a script can run twice; anything else that has the
    name is refused, unless `overwrite` says so.
    """
    target = _with_suffix(Path(path))
    if target.exists() and not overwrite:
        _check_replaceable(target, posterior, compact)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder '{target.parent}' to save '{target.name}' in. Create it first.")
    write(target, *_checked_parts(posterior, compact))
    return target


def _check_replaceable(target: Path, posterior: Posterior, compact: bool) -> None:
    """Refuse to replace what is no posterior, or one of something else, or one that holds more than the new one."""
    there = header_of(target)
    if there is None or there.get("format") != FORMAT:
        why = "is no posterior of vsbq"
    elif there.get("names") != list(posterior.names):
        why = "holds a posterior of other parameters"
    elif there.get("tag") != posterior.tag:
        why = f"holds a posterior with another tag ({there.get('tag')!r:.60})"
    elif there.get("evaluations") is not None and (compact or posterior.evaluations is None):
        why = "holds evaluations, which the new file would not"
    else:
        return
    raise FileExistsError(
        f"'{target}' exists and {why}. Pass overwrite=True to replace it, or save under another name."
    )


def packed(posterior: Posterior, origin: Origin | None = None) -> bytes:
    """The bytes of the file of a posterior, with what it was made from."""
    header, arrays = _checked_parts(posterior, compact=False)
    stream = BytesIO()
    pack(stream, header._replace(origin=origin), arrays)
    return stream.getvalue()


def _checked_parts(posterior: Posterior, compact: bool) -> tuple[Header, Arrays]:
    """Header and arrays from which the posterior can be put together again."""
    if posterior.prior_change is not None and not compact:
        raise PosteriorFileError(
            "A prior of yours, a function, is part of this posterior, and files hold no functions. Save the "
            "posterior it came from and repeat with_prior, or save this one's mixture with compact=True."
        )
    try:
        header, arrays = _take_apart(posterior, compact)
        _put_together(header, arrays)
    except Broken as error:
        raise PosteriorFileError(f"This posterior can't be saved: {error}") from None
    return header, arrays


def load(path: str | os.PathLike[str], *, support: InSupport | None = None) -> Posterior:
    """Read a posterior that `save` wrote; nothing in the file is executed.

    `support` is the function that the posterior was fitted with, if there was one. With it the edge of the density is
    exact and `update` knows it; without it the edge is the one that was learnt from its answers when it was saved.
    Raises `PosteriorFileError` for a file that is damaged, foreign, inconsistent or too new.
    """
    posterior, header, arrays = _read(path)
    return posterior if support is None else told_again(posterior, header, arrays, support)


def load_with_origin(path: str | os.PathLike[str]) -> tuple[Posterior, Origin | None]:
    """A posterior and what `vsbq.fit_many` made it from; None in a file that it did not write."""
    posterior, header, _ = _read(path)
    return posterior, header.origin


def _read(path: str | os.PathLike[str]) -> tuple[Posterior, Header, Arrays]:
    source = Path(path)
    if not source.exists():
        source = _with_suffix(source)
    if source.exists() and not (source.is_file() or source.is_dir()):
        raise PosteriorFileError(f"'{source}' is no file but a pipe or a device. Pass a posterior file.")
    if not source.exists():
        raise FileNotFoundError(f"There is no file '{source}'. Check the path.")
    if source.is_dir():
        raise IsADirectoryError(f"'{source}' is a folder. Pass the file in it, such as '{source / 'posterior.npz'}'.")
    with source.open("rb") as stream:
        try:
            header, arrays = read(stream, Header, shapes_of, format_name=FORMAT, version=VERSION, as_of_now=as_of_now)
            return _put_together(header, arrays), header, arrays
        except Broken as error:
            raise PosteriorFileError(f"'{source}' can't be loaded: {error}") from None
        except Exception as error:  # zip, deflate, npy and JSON each have their own ways to fail on arbitrary bytes
            raise PosteriorFileError(
                f"'{source}' can't be loaded: it is damaged or no posterior file ({type(error).__name__}: {error}). "
                "Take another copy, or save the posterior again."
            ) from error


def _with_suffix(path: Path) -> Path:
    return path if path.suffix else path.with_name(path.name + ".npz")


# From a posterior to a header and arrays, and back


def _take_apart(posterior: Posterior, compact: bool) -> tuple[Header, Arrays]:
    arrays = _plain_arrays(posterior.space, posterior.mixture)
    surrogate = evaluations = refined = None
    if not compact and posterior.surrogate is not None:
        surrogate, more = take_apart_surrogate(_known(posterior.surrogate), posterior)
        arrays |= more
    if not compact and posterior.refined is not None:
        refined, more = _take_apart_refined(posterior.refined)
        require(posterior.refined.region.surrogate is posterior.surrogate, "it was refined on another surrogate")
        require(posterior.refined.region.support is posterior.support, "it was refined with another support")
        arrays |= more
    if not compact and posterior.evaluations is not None:
        evaluations, more = _take_apart_evaluations(posterior.evaluations, posterior)
        arrays |= more
    support, more = take_apart_support(posterior)
    arrays |= more
    header = Header(
        format=FORMAT,
        format_version=VERSION,
        vsbq_version=__version__,
        names=posterior.names,
        components=len(posterior.mixture.means),
        offset=posterior.offset,
        elbo=posterior.elbo_estimate,
        surrogate=surrogate,
        evaluations=evaluations,
        history=posterior.history,
        evidence=posterior.evidence_estimate if posterior.refined is None else posterior.refined.evidence,
        refined=refined,
        tag=posterior.tag,
        far_bounds=posterior.space.near is not None,
        support=support,
        diagnosis=posterior.diagnosis,
    )
    return header, {name: np.ascontiguousarray(array, dtype="<f8") for name, array in arrays.items()}


def _plain_arrays(space: InferenceSpace, mixture: Mixture) -> Arrays:
    """What every file holds, a compact one too."""
    arrays = {
        "space_lower": space.bounds.lower,
        "space_upper": space.bounds.upper,
        "space_edge": space.edge,
        "space_centre": space.centre,
        "space_scale": space.scale,
        "mixture_log_weights": mixture.log_weights,
        "mixture_means": mixture.means,
        "mixture_trils": pack_lower(mixture.trils),
    }
    if space.near is not None:
        arrays |= {"space_near_lower": space.near.lower, "space_near_upper": space.near.upper}
    return arrays


def _put_together(header: Header, arrays: Arrays) -> Posterior:
    names = header.names
    require(len(set(names)) == len(names) and all(names), "parameters have no name or share one")
    check_numbers(header, arrays)
    a = arrays
    bounds = Bounds(a["space_lower"], a["space_upper"])
    near = Bounds(a["space_near_lower"], a["space_near_upper"]) if header.far_bounds else None
    space = InferenceSpace(bounds, a["space_edge"], a["space_centre"], a["space_scale"], near=near)
    trils = unpack_lower(a["mixture_trils"], len(names))
    require((np.einsum("kii->ki", trils) > 0).all(), "a component of the mixture has no positive scale")
    mixture = Mixture(a["mixture_log_weights"], a["mixture_means"], trils)
    surrogate = put_together_surrogate(header, arrays, space)
    support = put_together_support(header, arrays)
    return Posterior(
        names=names,
        space=space,
        mixture=mixture,
        elbo_estimate=header.elbo,
        offset=header.offset,
        evaluations=_put_together_evaluations(header, arrays, bounds),
        surrogate=surrogate,
        history=header.history,
        refined=_put_together_refined(header, arrays, surrogate, support),
        evidence_estimate=header.evidence if header.refined is None else None,
        support=support,
        tag=header.tag,
        diagnosis=header.diagnosis,
    )


def _take_apart_refined(refined: Refined) -> tuple[RefinedHeader, Arrays]:
    region = refined.region
    arrays = {
        "refined_points": refined.points,
        "refined_weights": refined.weights,
        "refined_mixture_weights": refined.mixture_weights,
        "region_lower": region.lower,
        "region_upper": region.upper,
    }
    scalars = (region.most_variance, region.most_mean, region.most_rise)
    guessed = region.guessed_variance if np.isfinite(region.guessed_variance) else None
    return RefinedHeader(len(refined.points), *scalars, guessed, region.noisy), arrays


def _put_together_refined(
    header: Header, arrays: Arrays, surrogate: Surrogate | None, support: Support | None
) -> Refined | None:
    if header.refined is None:
        return None
    if surrogate is None or header.evidence is None:
        raise Broken("it has refined draws without their surrogate or their evidence. Take another copy, or fit again.")
    box, kept = (arrays["region_lower"], arrays["region_upper"]), header.refined
    guessed = np.inf if kept.guessed_variance is None else kept.guessed_variance
    require((box[0] <= box[1]).all() and guessed >= 0, "the region in which the surrogate is trusted makes no sense")
    scalars = (kept.most_variance, kept.most_mean, kept.most_rise)
    region = TrustedRegion(surrogate, *box, *scalars, guessed, support, noisy=kept.noisy)
    weights, to_mixture = arrays["refined_weights"], arrays["refined_mixture_weights"]
    for each in (weights, to_mixture):
        require((each >= 0).all() and abs(each.sum() - 1) < 1e-6, "the weights of the refined draws don't sum to one")
    return Refined(arrays["refined_points"], weights, to_mixture, header.evidence, region)


def _take_apart_evaluations(evaluations: Evaluations, posterior: Posterior) -> tuple[EvaluationsHeader, Arrays]:
    same = evaluations.names == posterior.names and evaluations.bounds == posterior.bounds
    require(same, "its evaluations have other names or bounds than its parameters")
    arrays = {"evaluations_points": evaluations.points, "evaluations_log_density": evaluations.log_density}
    sd, plausible = evaluations.log_density_sd, evaluations.plausible_bounds
    if sd is not None:
        arrays["evaluations_sd"] = sd
    if evaluations.log_prior is not None:
        arrays["evaluations_log_prior"] = evaluations.log_prior
    if plausible is not None:
        arrays |= {"evaluations_plausible_lower": plausible.lower, "evaluations_plausible_upper": plausible.upper}
    given = {"noisy": sd is not None, "plausible": plausible is not None, "prior": evaluations.log_prior is not None}
    return EvaluationsHeader(rows=len(evaluations), notes=evaluations.notes, **given), arrays


def _put_together_evaluations(header: Header, arrays: Arrays, bounds: Bounds) -> Evaluations | None:
    if header.evaluations is None:
        return None
    points, values = arrays["evaluations_points"], arrays["evaluations_log_density"]
    require(not bounds.outside(points).any(), "an evaluation lies outside the bounds")
    plausible = None
    if header.evaluations.plausible:
        plausible = Bounds(arrays["evaluations_plausible_lower"], arrays["evaluations_plausible_upper"])
    sd, prior = arrays.get("evaluations_sd"), arrays.get("evaluations_log_prior")
    rows = door.Rows(points, values, sd, np.arange(len(points)), header.evaluations.notes, prior)
    evaluations = object.__new__(Evaluations)  # they were validated when they were made
    evaluations._assign(rows, bounds, plausible, header.names, read_tag(header.tag))
    return evaluations


def _known(surrogate: LogDensityModel) -> Surrogate:
    """Refuse a surrogate that the format has no arrays for."""
    if not isinstance(surrogate, Surrogate):
        raise PosteriorFileError(
            f"The surrogate of this posterior is of type {type(surrogate).__name__}, which the format "
            "does not know. Save its mixture with compact=True."
        )
    return surrogate
