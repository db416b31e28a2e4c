"""Where a posterior goes next: pandas, ArviZ, getdist and Cobaya."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsbq._typing import Bool, ndarray
from vsbq._version import __version__
from vsbq.data.evaluations import Evaluations
from vsbq.errors import FitError, VsbqError, names_in_words
from vsbq.posterior import Posterior
from vsbq.randomness import RandomState
from vsbq.steps.trim import Trim, trim_evaluations

if TYPE_CHECKING:
    import getdist
    import pandas
    import xarray

__all__ = [
    "ExportError",
    "covmat_text",
    "save_covmat",
    "to_arviz",
    "to_dataframe",
    "to_getdist",
]


class ExportError(VsbqError, ValueError):
    """The posterior can't be handed over in this form; the message names the remedy."""


# pandas


def to_dataframe(post: Posterior, n: int = 4000, rng: RandomState = None) -> pandas.DataFrame:
    """Draws as a data frame with one column per parameter."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_dataframe needs pandas: pip install pandas") from error
    return pandas.DataFrame(post.sample(n, rng), columns=list(post.names))


# ArviZ


def to_arviz(post: Posterior, n: int = 4000, rng: RandomState = None, chains: int | None = 4) -> xarray.DataTree:
    """Draws, evaluations and the fit as a DataTree of ArviZ (arviz-base 0.8 or later).

    Groups: `posterior` (one variable per parameter, over the dimensions `chain` and `draw`, as the functions of ArviZ
    expect; these are no Markov chains: the draws are independent, and R-hat says nothing of the fit; over `sample` if
    `chains` is None), `sample_stats` (`lp`, the normalised log density),
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
        raise ExportError(
            f"There is no way to have {n} draws in {chains} chains. Ask for one draw in each, or pass chains=None."
        )
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
    if trimmed.steps:  # they were used too
        training, _ = trim_evaluations(evaluations, Trim(gradients=False))
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
