"""Posterior predictive checks: would the model, at draws of the posterior, make data like those observed?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.errors import ArgumentError, lists_options, names_in_words
from vsbq.posterior import Posterior
from vsbq.randomness import RandomState, Seed, one_of
from vsbq.tables import caption, note, notebook_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FAR", "Predictive", "predictive"]

#: Replicates below which tail probabilities say little.
LEAST_REPLICATES = 20

#: A two-sided tail probability below this is marked.
FAR = 0.02

Statistics = Mapping[str, Callable[[ndarray], Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Predictive:
    """Data made at draws of a posterior beside the observed ones; shows as a table of statistics.

    `tail` is the share of replicates whose statistic is at least the observed one; near 0 or 1 the model seldom makes
    such data. `two_sided` is twice the smaller tail. `notes` say what else to know.
    """

    parameters: tuple[str, ...]
    points: Float[ndarray, "n d"]
    observed: Float[ndarray, ...]
    replicated: Float[ndarray, ...]  # (n, *shape of the observed)
    names: tuple[str, ...]
    of_observed: Float[ndarray, " k"]
    of_replicated: Float[ndarray, "n k"]
    notes: tuple[str, ...] = ()

    @property
    def tail(self) -> Float[ndarray, " k"]:
        """Share of the replicates with at least the observed statistic; the observed data count as one of them."""
        return np.asarray((1 + np.sum(self.of_replicated >= self.of_observed, axis=0)) / (1 + len(self.points)))

    @property
    def two_sided(self) -> Float[ndarray, " k"]:
        """Twice the smaller of the two tail probabilities, at most one."""
        below = (1 + np.sum(self.of_replicated <= self.of_observed, axis=0)) / (1 + len(self.points))
        return np.asarray(np.minimum(1.0, 2 * np.minimum(self.tail, below)))

    @property
    def far(self) -> tuple[str, ...]:
        """Statistics of the observed data that are far out among those of the replicates."""
        return tuple(name for name, p in zip(self.names, self.two_sided, strict=True) if p < FAR)

    def __str__(self) -> str:
        width = max(12, *(len(name) for name in self.names))
        head = f"{'':<{width}}" + "".join(f"{title:>12}" for title in self._titles())
        rows = [f"{name:<{width}}" + "".join(f"{text:>12}" for text in texts) for name, *texts in self._rows()]
        return "\n".join([head, *rows, *self._words()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        last, *more = reversed(self._words())
        above = caption(f"Posterior predictive check, {len(self.points)} replicates")
        return notebook_table(["", *self._titles()], self._rows(), above=above, below=note(" ".join([*more, last])))

    def _titles(self) -> list[str]:
        return ["observed", "5 %", "median", "95 %", "tail", "two-sided"]

    def _rows(self) -> list[list[str]]:
        low, middle, high = np.quantile(self.of_replicated, [0.05, 0.5, 0.95], axis=0)
        columns = (self.of_observed, low, middle, high, self.tail, self.two_sided)
        texts = ([f"{float(value):.4g}" for value in column] for column in columns)
        return [list(row) for row in zip(self.names, *texts, strict=True)]

    def _words(self) -> list[str]:
        if not self.far:
            words = "None of these statistics is far out: the model makes such data."
        else:
            words = (
                f"Far out: {names_in_words(self.far)}. The model seldom makes such data; a better fit won't change it."
            )
        return [words, *self.notes]

    def to_dict(self) -> dict[str, dict[str, float]]:
        """One entry per statistic, with the observed one, quantiles of the replicates, and tail probabilities."""
        low, middle, high = np.quantile(self.of_replicated, [0.05, 0.5, 0.95], axis=0)
        keys = ("observed", "q05", "median", "q95", "tail", "two_sided")
        columns = (each.tolist() for each in (self.of_observed, low, middle, high, self.tail, self.two_sided))
        return {name: dict(zip(keys, row, strict=True)) for name, *row in zip(self.names, *columns, strict=True)}

    @lists_options("plot")
    def plot(self, *, x: ArrayLike | None = None, figure: Figure | None = None) -> Figure:
        """The data over the band of the replicates, against `x` if it is given, and a histogram for each statistic;
        needs the extra vsbq[plot]."""
        from vsbq.report.predictive_plot import plot_predictive

        return plot_predictive(self, x=x, figure=figure)


def predictive(
    post: Posterior,
    simulate: Callable[..., Any],
    observed: ArrayLike | Mapping[str, float],
    n: int = 200,
    *,
    statistics: Statistics | None = None,
    rng: RandomState = None,
    seed: Seed = None,
) -> Predictive:
    """Simulate data at n draws of the posterior and compare them with those observed.

    Args:
        post: the posterior.
        simulate: makes data from one point (D,), as `simulate(x)` or, better, `simulate(x, rng)`; with its noise.
        observed: the data, of the shape that `simulate` gives; or summary statistics by name, if it gives those.
        n: how many draws.
        statistics: functions of the data by name. Without: mean, sd, smallest, largest, the distance from what is
            predicted, and how alike deviations of neighbours are.
        rng, seed: as in `Posterior.sample`.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < LEAST_REPLICATES:
        raise ArgumentError(f"n is {n!r:.40}. Give a whole number of draws, {LEAST_REPLICATES} or more.")
    stream = np.random.default_rng(one_of(rng, seed))
    named = tuple(str(key) for key in observed) if isinstance(observed, Mapping) else None
    data = _numbers(list(observed.values()) if isinstance(observed, Mapping) else observed)
    points = post.sample(int(n), stream)
    simulator = _Simulator(simulate, post.names, data.shape, tuple(observed) if isinstance(observed, Mapping) else None)
    replicated = np.array([simulator(i, x, stream) for i, x in enumerate(points)])
    same = np.array_equal(simulator(0, points[0], stream), replicated[0])
    notes = (SAME,) if same else ()
    if named is not None and statistics is None:
        names, one, many = named, data, replicated
    elif statistics is not None:
        names, one, many = _own(statistics, data, replicated)
    else:
        names, one, many = _usual(data, replicated)
    for array in (points, data, replicated, one, many):
        array.flags.writeable = False
    return Predictive(post.names, points, data, replicated, names, one, many, notes)


SAME = (
    "simulate gave the same data twice at one point: it seems to add no noise, so that these are predicted means, "
    "which scatter less than data."
)


def _numbers(observed: Any) -> Float[ndarray, ...]:
    try:
        data = np.array(observed, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"observed holds no array of numbers ({error}). Pass the data as one array.") from error
    if not data.size or not np.isfinite(data).all():
        found = "is empty" if not data.size else f"has {int((~np.isfinite(data)).sum())} values that are NaN or inf"
        raise ArgumentError(f"observed {found}. Leave missing data out, in simulate as well.")
    return data


@dataclass(frozen=True)
class _Simulator:
    """The user's simulator, whose failures become words."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    shape: tuple[int, ...]
    keys: tuple[str, ...] | None

    def __call__(self, draw: int, x: Float[ndarray, " d"], rng: np.random.Generator) -> Float[ndarray, ...]:
        where = ", ".join(f"{name} = {value:.6g}" for name, value in zip(self.parameters, x.tolist(), strict=True))
        where = f"at draw {draw} ({where:.300})"
        try:
            made = self.function(x.copy(), rng) if _takes_two(self.function) else self.function(x.copy())
            if self.keys is not None:
                made = [made[key] for key in self.keys]
            data = np.asarray(made, dtype=np.float64)
        except Exception as error:
            words = f"simulate failed {where} with {type(error).__name__}: {error!s:.200}. "
            raise ArgumentError(f"{words}{self._remedy()}") from error
        if data.shape != self.shape:
            raise ArgumentError(
                f"simulate gave data of shape {data.shape} {where}, but those observed have {self.shape}. Let it give "
                "data at the same places as the observed ones."
            )
        if not np.isfinite(data).all():
            raise ArgumentError(
                f"simulate gave {int((~np.isfinite(data)).sum())} values that are NaN or inf {where}. The posterior "
                "reaches there: let simulate work there, or give bounds to the fit that keep away from it."
            )
        return data

    def _remedy(self) -> str:
        if self.keys is not None:
            return f"It must give a dict with {names_in_words(str(key) for key in self.keys)}, as observed does."
        return "It is called with one point of D numbers, and with a Generator if it takes two arguments."


def _takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function takes a generator after the point."""
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


Compared = tuple[tuple[str, ...], Float[ndarray, " k"], Float[ndarray, "n k"]]


def _own(statistics: Statistics, data: Float[ndarray, ...], replicated: Float[ndarray, ...]) -> Compared:
    if not statistics:
        raise ArgumentError("statistics is empty. Give functions of the data by name, or leave it out.")
    one = np.array([_value(name, function, data) for name, function in statistics.items()])
    many = np.array([[_value(name, function, each) for name, function in statistics.items()] for each in replicated])
    return tuple(str(name) for name in statistics), one, many


def _value(name: str, function: Callable[[ndarray], Any], data: Float[ndarray, ...]) -> float:
    try:
        value = np.asarray(function(data.copy()), dtype=np.float64)
    except Exception as error:
        words = f"The statistic '{name}' failed with {type(error).__name__}: {error!s:.200}."
        raise ArgumentError(f"{words} It is called with data of shape {data.shape}.") from error
    if value.size != 1 or not np.isfinite(value).all():
        found = f"an array of shape {value.shape}" if value.size != 1 else f"{float(value.reshape(-1)[0])}"
        raise ArgumentError(f"The statistic '{name}' is {found}. It must give one finite number.")
    return float(value.reshape(-1)[0])


def _usual(data: Float[ndarray, ...], replicated: Float[ndarray, ...]) -> Compared:
    """Statistics that suit most data: location, scatter, extremes, and deviations from what is predicted."""
    every = np.concatenate([data.reshape(1, -1), replicated.reshape(len(replicated), -1)])
    if every.shape[1] == 1:
        return ("value",), every[0], every[1:]
    middle, scatter = every[1:].mean(axis=0), every[1:].std(axis=0)
    z = (every - middle) / np.where(scatter > 0, scatter, 1.0)
    found = {
        "mean": every.mean(axis=1),
        "sd": every.std(axis=1),
        "smallest": every.min(axis=1),
        "largest": every.max(axis=1),
        "distance": np.mean(z**2, axis=1),
        "neighbours": np.mean(z[:, 1:] * z[:, :-1], axis=1),
    }
    table = np.column_stack(list(found.values()))
    return tuple(found), table[0], table[1:]
