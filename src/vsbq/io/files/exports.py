"""Where a posterior goes next: ArviZ, getdist, Cobaya, and samplers that start where this ends."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import gammaln, stdtrit

from vsbq._typing import Bool, Float, ndarray
from vsbq._version import __version__
from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import InferenceSpace
from vsbq.errors import FitError, VsbqError, names_in_words
from vsbq.numerics import mixture as mix
from vsbq.posterior import Posterior, RandomState
from vsbq.steps.trim import Trim, trim_evaluations

if TYPE_CHECKING:
    import getdist
    import xarray

__all__ = [
    "ExportError",
    "LivePoints",
    "MassMatrix",
    "covmat_text",
    "live_points",
    "mass_matrix",
    "save_covmat",
    "start_ensemble",
    "to_arviz",
    "to_getdist",
]

#: Draws from which covariances in other coordinates are taken.
MANY = 20_000

#: Degrees of freedom of the prior that a nested sampler starts from: tails heavier than any posterior should have.
TAILS = 5.0


class ExportError(VsbqError, ValueError):
    """The posterior can't be handed over in this form; the message names the remedy."""


# ArviZ


def to_arviz(post: Posterior, n: int = 4000, rng: RandomState = None, chains: int | None = None) -> xarray.DataTree:
    """Draws, evaluations and the fit as a DataTree of ArviZ (arviz-base 0.8 or later).

    Groups: `posterior` (one variable per parameter, over the dimension `sample`; over `chain` and `draw` if `chains` is
    given, which are not Markov chains: the draws are independent), `sample_stats` (`lp`, the normalised log density),
    `evaluations_data` (points by name, `log_density`, where known `log_density_sd`, `log_prior` and `used`: whether the
    fit kept the row) and `fit` (ELBO, log evidence and seconds). Names that are dimensions here or hold a slash get
    another one; the attribute `renamed` of the tree tells which.
    """
    try:
        import arviz_base
        import xarray
    except ImportError as error:
        raise ImportError("to_arviz needs arviz-base 0.8 or later: pip install 'vsbq[arviz]'") from error
    shape = _sample_shape(n, chains)
    dims = ["sample"] if chains is None else ["chain", "draw"]
    draws = post.sample(int(np.prod(shape)), rng)
    evaluations = None if post.evaluations is None else _evaluation_columns(post, post.evaluations)
    taken = {*dims, "lp", "evaluation", "stage", *(() if evaluations is None else evaluations)}
    names = safe_names(post.names, taken, r"[/\x00-\x1f]|^\.+$")

    def group(data: dict[str, ndarray], sample_dims: list[str]) -> xarray.Dataset:
        columns: dict[Hashable, Sequence[Hashable]] = {} if sample_dims else {name: ["evaluation"] for name in data}
        return arviz_base.dict_to_dataset(data, sample_dims=sample_dims, dims=columns, check_conventions=False)

    groups = {
        "posterior": group({name: draws[:, i].reshape(shape) for i, name in enumerate(names)}, dims),
        "sample_stats": group({"lp": post.log_pdf(draws).reshape(shape)}, dims),
        "fit": xarray.Dataset(_fit_numbers(post)),
    }
    if evaluations is not None and post.evaluations is not None:
        columns = dict(zip(names, post.evaluations.points.T, strict=True))
        groups["evaluations_data"] = group(columns | evaluations, [])
    tree = xarray.DataTree.from_dict(groups)
    tree.attrs |= {"inference_library": "vsbq", "inference_library_version": __version__}
    tree.attrs |= {} if post.tag is None else {"tag": post.tag}
    tree.attrs["renamed"] = json.dumps({new: old for new, old in zip(names, post.names, strict=True) if new != old})
    return tree


def _sample_shape(n: int, chains: int | None) -> tuple[int, ...]:
    if n < 1 or (chains is not None and not 1 <= chains <= n):
        raise ExportError(f"There is no way to have {n} draws in {chains} chains. Ask for at least one draw in each.")
    return (n,) if chains is None else (chains, n // chains)


def safe_names(names: Sequence[str], taken: Iterable[str], bad: str) -> tuple[str, ...]:
    """Names without what matches `bad`, different from each other and from those that are taken; most stay as is."""
    used, out = set(taken), []
    for name in names:
        new = re.sub(bad, "_", name.strip()) or "_"
        others = {other for other in names if other != name}
        while new in used or (new != name and new in others):
            new += "_"
        used.add(new)
        out.append(new)
    return tuple(out)


def _evaluation_columns(post: Posterior, evaluations: Evaluations) -> dict[str, ndarray]:
    columns = {
        "log_density": evaluations.log_density,
        "log_density_sd": evaluations.log_density_sd,
        "log_prior": getattr(evaluations, "log_prior", None),
        "used": _used_rows(post, evaluations),
    }
    return {name: np.asarray(column) for name, column in columns.items() if column is not None}


def _used_rows(post: Posterior, evaluations: Evaluations) -> Bool[ndarray, " n"] | None:
    """Which evaluations the first step of the fit kept; None where that can't be repeated (other settings)."""
    if post.history is None:
        return None
    try:
        training, trimmed = trim_evaluations(evaluations, Trim())
    except FitError:
        return None
    if trimmed != post.history.trimmed:
        return None
    unique, group = np.unique(evaluations.points, axis=0, return_inverse=True)
    kept = {row.tobytes() for row in training.points}
    used = np.array([row.tobytes() in kept for row in training.space.forward(unique)])
    return used[group.ravel()]


def _fit_numbers(post: Posterior) -> dict[str, Any]:
    """Scalars of the fit, and the seconds of its stages."""
    numbers: dict[str, Any] = {
        "elbo": post.elbo,
        "elbo_sd": post.elbo_sd,
        "log_evidence": post.log_evidence,
        "log_evidence_sd": post.log_evidence_sd,
        "components": len(post.mixture.log_weights),
    }
    if post.history is not None and post.history.seconds:
        numbers["seconds"] = ("stage", np.array(list(post.history.seconds.values())))
        numbers["stage"] = ("stage", np.array(list(post.history.seconds)))
    return numbers


# getdist


def to_getdist(
    post: Posterior, n: int = 10_000, rng: RandomState = None, *, labels: Sequence[str] | None = None
) -> getdist.MCSamples:
    """Draws as getdist's MCSamples, with the hard bounds as ranges and minus the log density as `loglikes`.

    Labels are LaTeX without dollars, by default made from the names; characters that getdist does not allow in names
    become underscores.
    """
    try:
        import getdist
    except ImportError as error:
        raise ImportError("to_getdist needs getdist: pip install 'vsbq[getdist]'") from error
    if labels is not None and len(labels) != post.dimension:
        raise ExportError(f"There are {len(labels)} labels for {post.dimension} parameters. Pass one for each.")
    names = safe_names(post.names, (), r"[\s*?]")
    pairs = [[float(side) if np.isfinite(side) else None for side in post.bounds.pair(i)] for i in range(len(names))]
    draws = post.sample(n, rng)
    return getdist.MCSamples(
        samples=draws,
        loglikes=-post.log_pdf(draws),
        names=list(names),
        labels=[_label(name) for name in post.names] if labels is None else list(labels),
        ranges={name: pair for name, pair in zip(names, pairs, strict=True) if pair != [None, None]},
        sampler="uncorrelated",
    )


def _label(name: str) -> str:
    """A name as LaTeX: what is LaTeX already stays, single letters are slanted, words are upright."""
    if "\\" in name or "$" in name:
        return name.replace("$", "")
    plain = re.sub(r"([_^{}%#&])", r"\\\1", name).replace(" ", r"\ ")
    return plain if len(name) == 1 else rf"\mathrm{{{plain}}}"


# Cobaya


def covmat_text(post: Posterior) -> str:
    """The covariance in Cobaya's format: a line "# name1 name2 ...", then the rows. A `covmat` for its MCMC."""
    odd = [name for name in post.names if re.search(r"\s|#", name)]
    if odd:
        raise ExportError(f"A covmat can't hold the names {names_in_words(odd)}. Use names without spaces and '#'.")
    rows = [" ".join(f"{value: .10e}" for value in row) for row in post.cov()]
    return "\n".join(["# " + " ".join(post.names), *rows]) + "\n"


def save_covmat(post: Posterior, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write `covmat_text` to a file and return its path; an existing file is left alone unless told."""
    target, text = Path(path), covmat_text(post)
    try:
        with target.open("w" if overwrite else "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        message = f"'{target}' exists. Pass overwrite=True to replace it, or save under another name."
        raise FileExistsError(message) from None
    return target


# Samplers


def start_ensemble(post: Posterior, walkers: int, rng: RandomState = None) -> Float[ndarray, "n d"]:
    """Distinct draws strictly inside the bounds and of finite density: `p0` of emcee, zeus and other ensembles.

    emcee wants at least two walkers per parameter.
    """
    if walkers < 1:
        raise ExportError(f"An ensemble has at least one walker, not {walkers}.")
    generator = np.random.default_rng(rng)
    found = np.empty((0, post.dimension))
    for attempt in range(20):
        many = 2 * walkers + 10
        # The draws of the refinement are a finite set; the mixture has no end of them.
        if attempt < 2:
            more = post.sample(many, generator)
        else:
            more = post.space.inverse(mix.sample(post.mixture, many, generator))
        inside = ((more > post.bounds.lower) & (more < post.bounds.upper)).all(axis=1)
        more = more[inside]
        found = np.concatenate([found, more[np.isfinite(post.log_pdf(more))]])
        _, first = np.unique(found, axis=0, return_index=True)
        found = found[np.sort(first)]
        if len(found) >= walkers:
            return found[:walkers]
    raise ExportError(
        f"Only {len(found)} distinct points strictly inside the bounds were found for {walkers} walkers: the posterior "
        "is narrower than its numbers can tell apart. Rescale the parameters."
    )


@dataclass(frozen=True, eq=False)
class MassMatrix:
    """What Hamiltonian samplers adapt to, already known.

    `inverse` is the covariance of the posterior in the coordinates that the sampler moves in: `inv_metric` of Stan,
    `inverse_mass_matrix` of BlackJAX and NumPyro, the covariance of PyMC's potential. `matrix` is its inverse, the mass
    matrix itself.
    """

    names: tuple[str, ...]
    coordinates: tuple[str, ...]  # what each coordinate is, as a formula of the parameter x
    inverse: Float[ndarray, "d d"]

    @property
    def matrix(self) -> Float[ndarray, "d d"]:
        """The mass matrix: the precision of the posterior."""
        return np.linalg.inv(self.inverse)


def mass_matrix(
    post: Posterior, space: Literal["unconstrained", "user"] = "unconstrained", *, rng: RandomState = None
) -> MassMatrix:
    """Inverse metric for Hamiltonian Monte Carlo, from 20,000 draws.

    "unconstrained" are the coordinates in which Stan and PyMC sample: logit((x − lower) / (upper − lower)) with two
    bounds, log(x − lower) or log(upper − x) with one, x with none. "user" leaves the parameters as they are.
    """
    if space not in ("unconstrained", "user"):
        raise ExportError(f"space={space!r} is not known. Use 'unconstrained' or 'user'.")
    draws = post.sample(MANY, rng)
    if space == "user":
        return MassMatrix(post.names, ("x",) * post.dimension, np.atleast_2d(np.cov(draws.T)))
    free = _unconstrained(draws, post.bounds, post.space.edge)
    return MassMatrix(post.names, _formulas(post.bounds), np.atleast_2d(np.cov(free.T)))


def _unconstrained(x: Float[ndarray, "n d"], bounds: Bounds, edge: Float[ndarray, " d"]) -> Float[ndarray, "n d"]:
    out = x.copy()
    least = np.maximum(edge, 1e-300)
    with np.errstate(invalid="ignore"):
        low, high = np.maximum(x - bounds.lower, least), np.maximum(bounds.upper - x, least)
    for i, kind in enumerate(bounds.kind):
        if kind != "open":
            to_low, to_high = np.log(low[:, i]), np.log(high[:, i])
            out[:, i] = {"both": to_low - to_high, "lower": to_low, "upper": to_high}[kind]
    return out


def _formulas(bounds: Bounds) -> tuple[str, ...]:
    """The coordinates of `_unconstrained` in words."""
    out = []
    for i, kind in enumerate(bounds.kind):
        low, high = (f"{side:g}" for side in bounds.pair(i))
        words = {
            "open": "x",
            "lower": f"log(x - {low})",
            "upper": f"log({high} - x)",
            "both": f"logit((x - {low}) / ({high} - {low}))",
        }
        out.append(words[kind])
    return tuple(out)


@dataclass(frozen=True, eq=False)
class LivePoints:
    """A start for nested sampling near the posterior that leaves its evidence right; made by `Posterior.live_points`.

    Live points have to be drawn from the prior of the run, or its evidence is wrong, and draws of a posterior are not.
    So the run gets another prior: a wide density q with heavy tails around the posterior, from which `points` are
    drawn (`unit` are their coordinates on the unit cube). The sampler then takes `prior_transform` as its prior and
    `log_likelihood(log_density)` as its likelihood, which is log_density − log q: their product is the user's own
    likelihood times prior, so that posterior and evidence are those of the user's model while the run starts where the
    mass is. What is needed is a call of the model at each of the points:

        live = post.live_points(500, rng=1)
        sampler = dynesty.NestedSampler(
            live.log_likelihood(log_density), live.prior_transform, D, nlive=500,
            live_points=live.for_dynesty(log_density),
        )
    """

    points: Float[ndarray, "n d"]
    unit: Float[ndarray, "n d"]
    log_prior: Float[ndarray, " n"]  # log q of the points
    space: InferenceSpace = field(repr=False)
    centre: Float[ndarray, " d"] = field(repr=False)
    root: Float[ndarray, "d d"] = field(repr=False)

    def prior_transform(self, unit: ndarray) -> ndarray:
        """From the unit cube to the user's space, one point (D,) or several (n, D)."""
        cube = np.clip(np.atleast_2d(unit), 1e-300, np.nextafter(1.0, 0.0))
        u = self.centre + np.asarray(stdtrit(TAILS, cube)) @ self.root.T
        return self.space.inverse(u).reshape(np.shape(unit))

    def log_pdf(self, x: ndarray) -> Any:
        """Log q at one point (D,) or at several (n, D) of the user's space; −inf outside the bounds."""
        points = np.atleast_2d(np.asarray(x, dtype=np.float64))
        u = self.space.forward(points)
        z = np.linalg.solve(self.root, (u - self.centre).T).T
        turn = float(np.log(np.abs(np.diagonal(self.root))).sum())
        constant = gammaln(0.5 * (TAILS + 1)) - gammaln(0.5 * TAILS) - 0.5 * np.log(np.pi * TAILS)
        student = (constant - 0.5 * (TAILS + 1) * np.log1p(z**2 / TAILS)).sum(axis=1)
        out = student - turn - self.space.log_jacobian(u)
        out = np.where(self.space.bounds.outside(points).any(axis=1), -np.inf, out)
        return float(out[0]) if np.ndim(x) < 2 else out

    def log_likelihood(self, log_density: Callable[[ndarray], float]) -> Callable[[ndarray], float]:
        """What the nested sampler takes as log likelihood, from the user's log density (likelihood times prior)."""

        def difference(x: ndarray) -> float:
            value = float(log_density(x))
            return value if value == -np.inf else value - self.log_pdf(x)

        return difference

    def for_dynesty(self, log_density: Callable[[ndarray], float]) -> list[ndarray]:
        """`live_points` of dynesty: unit cube, points and their log likelihoods, with one model call each."""
        likelihood = self.log_likelihood(log_density)
        return [self.unit.copy(), self.points.copy(), np.array([likelihood(x) for x in self.points])]


def live_points(post: Posterior, n: int, rng: RandomState = None, *, widen: float = 1.5) -> LivePoints:
    """n live points for a nested sampler, and the prior that they are drawn from; see `LivePoints`.

    `widen` is how much wider than the posterior that prior is in each direction.
    """
    if n < 1 or not 0 < widen < np.inf:
        raise ExportError(f"Live points need n of at least 1 and a positive widen; got n={n}, widen={widen}.")
    generator = np.random.default_rng(rng)
    u = post.space.forward(post.sample(MANY, generator))
    root = widen * np.linalg.cholesky(np.atleast_2d(np.cov(u.T)))
    bare = LivePoints(
        np.empty((0, u.shape[1])), np.empty((0, u.shape[1])), np.empty(0), post.space, u.mean(axis=0), root
    )
    unit = generator.uniform(size=(n, post.dimension))
    points = bare.prior_transform(unit)
    return LivePoints(points, unit, bare.log_pdf(points), bare.space, bare.centre, root)
