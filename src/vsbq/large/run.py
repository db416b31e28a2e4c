"""A fit of very many evaluations: what is learnt comes from some of them, the surrogate from all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vsbq._typing import Int, ndarray
from vsbq.data.bounds import BoundsLike
from vsbq.data.evaluations import Evaluations
from vsbq.errors import ArgumentError, EvaluationsError
from vsbq.fit import fit
from vsbq.history import NoiseFinding, SurrogateFit
from vsbq.large.sample import choose, read_rows
from vsbq.large.sums import total_sums
from vsbq.large.tables import Opened, Table, open_table
from vsbq.posterior import Posterior
from vsbq.progress import Progress, logger
from vsbq.randomness import RandomState, Seed, one_of
from vsbq.settings import Settings, Steps
from vsbq.steps.noise import settle_noise
from vsbq.steps.surrogate import SparseGP, Surrogate, fit_sparse_gp
from vsbq.steps.surrogate.complete import complete, recipe_of
from vsbq.steps.trim import TrainingSet, Trim

__all__ = ["fit_large"]

#: Evaluations that a fit is made of by default. With more of them, what is learnt does not change: it is learnt from
#: some thousands.
SAMPLE = 100_000

#: Rows that are read at a time by default: with ten parameters, 5 MB.
CHUNK = 2**16


def fit_large(
    source: Any,
    log_density: Any = None,
    *,
    log_density_sd: Any = None,
    params: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    bounds: BoundsLike = None,
    plausible_bounds: BoundsLike = None,
    tag: str | None = None,
    settings: Settings | Steps | None = None,
    sample: int = SAMPLE,
    chunk: int = CHUNK,
    client: Any = None,
    rng: RandomState = None,
    seed: Seed = None,
    progress: bool | None = None,
) -> Posterior:
    """Posterior from more evaluations than fit in memory: `vsbq.fit_large("points.npy", "log_density.npy")`.

    Hyperparameters, coordinates and inducing points are learnt from a sample, half of it near the top. The surrogate is
    then completed with all evaluations, which are read a piece at a time. Memory grows with the sample and the square
    of the number of inducing points, not with the number of evaluations. Up to `sample` of them it is `vsbq.fit`.

    Args:
        source: the points: a matrix, the path of a .npy file with one, or of a Parquet file with a column for each
            parameter; or an `Evaluations`, or a file that `Evaluations.from_file` reads as a whole.
        log_density: their log densities: an array, the path of a .npy file, or the name of a column in Parquet
            ("log_density" if it is left out).
        log_density_sd: the noise, in the same way; one number if it is the same everywhere.
        params: columns of a Parquet file that are parameters; all but the log density by default.
        names: of the parameters.
        bounds: hard bounds, as in `fit`.
        plausible_bounds: as in `fit`.
        tag: as in `fit`.
        settings: as in `fit`.
        sample: evaluations to learn from; they are what the posterior keeps.
        chunk: rows that are read at a time, in steps of 8192; it changes no bit of the result.
        client: a `distributed.Client`, on whose workers all evaluations are summed; files have to be where they can
            read them. The number of workers changes no bit.
        rng: None, an integer or a NumPy Generator, as in `fit`.
        seed: another word for an integer as `rng`.
        progress: as in `fit`.
    """
    if chunk < 1 or sample < 1:
        raise ArgumentError(f"sample and chunk are numbers of rows, at least 1, not {sample} and {chunk}.")
    random = np.random.default_rng(one_of(rng, seed))
    known: dict[str, Any] = {"bounds": bounds, "plausible_bounds": plausible_bounds, "names": names, "tag": tag}
    opened = open_table(source, log_density, log_density_sd, params, known)
    table = opened.table
    steps = settings if isinstance(settings, Steps) else (settings or Settings()).steps()
    if table.rows <= sample:
        return fit(_evaluations(opened, np.arange(table.rows), known), settings=steps, rng=random, progress=progress)
    if not isinstance(steps.surrogate, SparseGP):
        raise ArgumentError("Only the default surrogate can be completed with more evaluations: leave it as it is.")
    dimension = table.read(0, 1).points.shape[1]
    given = _evaluations(opened, choose(table, sample, dimension, int(random.integers(2**62))), known)
    noise: NoiseFinding | None = None
    if steps.noise is not None:
        given, noise = settle_noise(given, steps.noise, steps.trim, random.spawn(1)[0])
    logger.info("%d of %d evaluations to learn from", len(given), table.rows)
    # Rows are summed one by one: steps of finite differences are evaluations like any others.
    trim = replace(steps.trim, gradients=False)
    step = CompletedGP(steps.surrogate, trim, table, _factor(noise), chunk, client)
    post = fit(given, settings=replace(steps, noise=None, trim=trim, surrogate=step), rng=random, progress=progress)
    assert post.history is not None
    return replace(post, history=post.history._replace(noise=noise))


def _evaluations(opened: Opened, chosen: Int[ndarray, " k"], known: dict[str, Any]) -> Evaluations:
    """Some rows as `fit` takes them: exact values have no standard deviation."""
    if opened.evaluations is not None:
        return opened.evaluations.take(chosen)
    rows = read_rows(opened.table, chosen)
    sd = rows.sd if (rows.sd > 0).any() else None
    names = known["names"] if known["names"] is not None else (opened.names or None)
    return Evaluations(rows.points, rows.values, log_density_sd=sd, **known | {"names": names})


def _factor(noise: NoiseFinding | None) -> float:
    """By what the noise is to be multiplied; minus the noise itself where none was given."""
    if noise is None:
        return 1.0
    return noise.factor if noise.kind == "rescaled" else -noise.sd


@dataclass(frozen=True, eq=False)
class CompletedGP:
    """The default surrogate of a sample, completed with all rows of a table."""

    inner: SparseGP
    trim: Trim
    table: Table
    factor: float
    chunk: int
    client: Any

    def fit(
        self, training: TrainingSet, rng: np.random.Generator, progress: Progress
    ) -> tuple[Surrogate, TrainingSet, SurrogateFit]:
        """The surrogate, the sample in its coordinates, and how it came about."""
        surrogate, turned, told = fit_sparse_gp(training, self.inner, rng, progress)
        recipe = recipe_of(surrogate, turned, told, self.inner, self.trim)
        progress.say(f"surrogate: {self.table.rows} evaluations")
        total = total_sums(recipe, self.table, self.factor, self.chunk, self.client)
        if not total.rows:
            raise EvaluationsError("No evaluation is within reach of the best one. Check the log densities.")
        logger.info("completed with %d evaluations", total.rows)
        surrogate, told = complete(surrogate, told, recipe, total)
        return surrogate, turned, told
