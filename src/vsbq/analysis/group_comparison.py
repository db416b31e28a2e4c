"""Which model, in a group of participants: random-effects Bayesian model selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammainc, gammaincinv, gammaln, logsumexp, xlogy

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.analysis.comparison import CAVEAT, ComparisonError, probabilities, read_value, refuse_different_tags
from vsbq.data.row_labels import check_same_labels
from vsbq.errors import EvaluationsError, names_in_words
from vsbq.randomness import RandomState, Seed, one_of
from vsbq.tables import caption, note, notebook_table

__all__ = ["GroupComparison", "compare_groups", "exceedance_probabilities"]

#: Of the columns of the table.
TITLES = ("frequency", "sd", "exceedance", "protected", "participants")

#: Draws of the log evidences that carry their uncertainty to what is computed from them.
DRAWS = 200

#: The variational Dirichlet stops when no count moves by more than this, or after so many rounds.
TOLERANCE = 1e-8
MOST_ROUNDS = 20_000


@dataclass(frozen=True, eq=False, repr=False)
class GroupComparison:
    """Random-effects model selection: how common each model is in the population the participants come from.

    Averages over the uncertainty of the log evidences, where that was given; the `_sd` of the exceedance says how
    much they vary with it. `alpha` are the parameters of the Dirichlet over model frequencies.
    """

    models: tuple[str, ...]
    participants: tuple[str, ...]
    alpha: Float[ndarray, " k"]
    frequency: Float[ndarray, " k"]
    frequency_sd: Float[ndarray, " k"]
    exceedance: Float[ndarray, " k"]  # probability that the model is the most common one
    exceedance_sd: Float[ndarray, " k"]
    protected_exceedance: Float[ndarray, " k"]
    omnibus_risk: float  # probability that all models are equally common
    assignment: Float[ndarray, "n k"]  # probability that a participant is of a model

    def __str__(self) -> str:
        width = max(5, *(len(name) for name in self.models))
        lines = [f"{'model':<{width}}" + "".join(f"{title:>14}" for title in TITLES)]
        lines += [f"{name:<{width}}" + "".join(f"{text:>14}" for text in row) for name, *row in self._rows()]
        return "\n".join([*lines, self._risk(), CAVEAT])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return notebook_table(["model", *TITLES], self._rows(), above=caption(self._risk()), below=note(CAVEAT))

    def _rows(self) -> list[list[str]]:
        """The models with their numbers as text."""
        columns = (self.frequency, self.frequency_sd, self.exceedance, self.protected_exceedance)
        counts = self.assignment.sum(axis=0)
        parts = [[f"{column[i]:.4f}" for column in columns] for i in range(len(self.models))]
        return [[name, *parts[i], f"{counts[i]:.1f}"] for i, name in enumerate(self.models)]

    def _risk(self) -> str:
        return f"{len(self.participants)} participants; Bayesian omnibus risk {self.omnibus_risk:.4f}"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, as for JSON."""
        columns = {
            "alpha": self.alpha,
            "frequency": self.frequency,
            "frequency_sd": self.frequency_sd,
            "exceedance": self.exceedance,
            "exceedance_sd": self.exceedance_sd,
            "protected_exceedance": self.protected_exceedance,
        }
        models = {name: {key: float(v[i]) for key, v in columns.items()} for i, name in enumerate(self.models)}
        rows = zip(self.participants, self.assignment.tolist(), strict=True)
        assignment = {who: dict(zip(self.models, row, strict=True)) for who, row in rows}
        return {"models": models, "omnibus_risk": self.omnibus_risk, "assignment": assignment}


def compare_groups(
    table: Mapping[str, Any] | ArrayLike | Any,
    sds: ArrayLike | None = None,
    *,
    models: Sequence[str] | None = None,
    participants: Sequence[str] | None = None,
    prior_count: float = 1.0,
    check_tags: bool = True,
    rng: RandomState = None,
    seed: Seed = None,
) -> GroupComparison:
    """Random-effects Bayesian model selection from log evidences of participants (rows) and models (columns).

    Model frequencies have a Dirichlet posterior, found by variational Bayes (Stephan et al. 2009); the omnibus risk and
    the protected exceedance probabilities are those of Rigoux et al. (2014). The risk compares the variational bound
    with the exact evidence of equal frequencies, so that it errs on the side of "no difference".

    Args:
        table: an array or data frame of log evidences, or a dict {model: {participant: a Posterior, a log evidence or
            a pair (log evidence, sd)}}.
        sds: standard deviations of the log evidences, of the same shape; posteriors bring their own.
        models: names of the columns; by default those of the data frame.
        participants: names of the rows; by default those of the data frame.
        prior_count: Dirichlet parameter of every model before the data.
        check_tags: refuse posteriors of one participant whose evaluations carry different tags.
        rng: for the draws that carry the uncertainty of the log evidences.
        seed: another word for an integer as `rng`.
    """
    random = one_of(rng, seed)
    given = (
        _read_dict(table, check_tags)
        if isinstance(table, Mapping) and sds is None and models is None and participants is None
        else _read_array(table, sds, models, participants)
    )
    if not (np.isfinite(prior_count) and prior_count > 0):
        raise ComparisonError(f"prior_count must be a positive number, not {prior_count}.")
    logs = given.logs[None]
    if given.sds.any():
        noise = np.random.default_rng(random).standard_normal((DRAWS, *given.logs.shape))
        logs = given.logs + given.sds * noise
    fits = _variational(logs, float(prior_count))
    k = logs.shape[2]
    total = fits.alpha.sum(axis=1, keepdims=True)
    frequency = fits.alpha / total
    within = frequency * (1 - frequency) / (total + 1)
    exceedance = exceedance_probabilities(fits.alpha)
    risk = fits.risk[:, None]
    return GroupComparison(
        given.models,
        given.participants,
        fits.alpha.mean(axis=0),
        frequency.mean(axis=0),
        np.sqrt(within.mean(axis=0) + frequency.var(axis=0)),
        exceedance.mean(axis=0),
        exceedance.std(axis=0),
        ((1 - risk) * exceedance + risk / k).mean(axis=0),
        float(fits.risk.mean()),
        fits.assignment.mean(axis=0),
    )


class _Table(NamedTuple):
    models: tuple[str, ...]
    participants: tuple[str, ...]
    logs: Float[ndarray, "n k"]
    sds: Float[ndarray, "n k"]


def _read_array(table: Any, sds: Any, models: Sequence[str] | None, participants: Sequence[str] | None) -> _Table:
    if isinstance(table, Mapping):
        raise ComparisonError("A dict brings its own names and sds. Pass pairs (log evidence, sd) as its values.")
    if hasattr(table, "columns"):  # a data frame
        models = table.columns if models is None else models
        participants = getattr(table, "index", None) if participants is None else participants
    _check_labels(table, sds)
    logs = _numbers(table, "the table of log evidences")
    if logs.ndim != 2 or logs.shape[0] < 1 or logs.shape[1] < 2:
        raise ComparisonError(
            f"The table of log evidences has shape {logs.shape}. Pass a row per participant and a column per model, at "
            "least two."
        )
    spread = np.zeros(logs.shape) if sds is None else _numbers(sds, "sds")
    spread = np.full(logs.shape, float(spread)) if spread.ndim == 0 else spread
    if spread.shape != logs.shape:
        raise ComparisonError(f"sds has shape {spread.shape}, the log evidences {logs.shape}. Pass one for each.")
    names = _names(models, logs.shape[1], "model")
    people = _names(participants, logs.shape[0], "participant")
    return _checked(_Table(names, people, logs, spread))


def _check_labels(table: Any, sds: Any) -> None:
    """Refuse two data frames whose participants or models are not the same in the same order."""
    for kind, turned in (("participants", False), ("models", True)):
        pair = {"the table": table, "sds": sds}
        if turned:
            pair = {name: frame.T for name, frame in pair.items() if hasattr(frame, "columns")}
        try:
            check_same_labels(pair)
        except EvaluationsError as error:
            raise ComparisonError(f"The {kind} of the log evidences are not those of their sds: {error}") from None


def _read_dict(table: Mapping[str, Any], check_tags: bool) -> _Table:
    if len(table) < 2:
        raise ComparisonError(f"A comparison takes at least two models, not {len(table)}.")
    flat = [str(model) for model, row in table.items() if not isinstance(row, Mapping)]
    if flat:
        raise ComparisonError(
            f"The entry of {names_in_words(flat)} is no dict. Pass {{model: {{participant: value}}}}."
        )
    people = list(dict.fromkeys(who for row in table.values() for who in row))
    for model, row in table.items():
        missing = [str(who) for who in people if who not in row]
        if missing or not people:
            raise ComparisonError(
                f"Model '{model}' has no evidence for {names_in_words(missing) or 'anyone'}. Every model needs one for "
                "every participant."
            )
    cells = [[read_value(row[who], f"'{model}' for '{who}'") for model, row in table.items()] for who in people]
    for who, row in zip(people if check_tags else [], cells if check_tags else [], strict=True):
        refuse_different_tags({f"{model} of {who}": cell.tag for model, cell in zip(table, row, strict=True)})
    logs = np.array([[cell.log_evidence for cell in row] for row in cells])
    spread = np.array([[cell.sd for cell in row] for row in cells])
    return _checked(_Table(tuple(map(str, table)), tuple(map(str, people)), logs, spread))


def _numbers(value: Any, label: str) -> ndarray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ComparisonError(f"{label} can't be read as numbers ({error}).") from None


def _names(names: Any, count: int, noun: str) -> tuple[str, ...]:
    out = tuple(f"{noun} {i}" for i in range(1, count + 1)) if names is None else tuple(str(name) for name in names)
    if len(out) != count or len(set(out)) != count:
        raise ComparisonError(f"There are {count} {noun}s, but the names are {out}. Give each its own name.")
    return out


def _checked(table: _Table) -> _Table:
    bad = ~np.isfinite(table.logs) | ~np.isfinite(table.sds) | (table.sds < 0)
    if bad.any():
        who, model = (int(i) for i in np.argwhere(bad)[0])
        raise ComparisonError(
            f"{int(bad.sum())} log evidences or their sds are not finite or negative, the first for "
            f"'{table.participants[who]}' and '{table.models[model]}' ({table.logs[who, model]:g}, sd "
            f"{table.sds[who, model]:g}). Leave that participant out, or give a finite number."
        )
    return table


class _Variational(NamedTuple):
    alpha: Float[ndarray, "s k"]
    assignment: Float[ndarray, "s n k"]
    bound: Float[ndarray, " s"]  # on the log evidence of different frequencies
    null: Float[ndarray, " s"]  # log evidence of equal frequencies

    @property
    def risk(self) -> Float[ndarray, " s"]:
        """Bayesian omnibus risk: probability of equal frequencies, both hypotheses being equally likely before."""
        return 1.0 / (1.0 + np.exp(np.clip(self.bound - self.null, -700.0, 700.0)))


def _variational(logs: Float[ndarray, "s n k"], prior_count: float) -> _Variational:
    """The Dirichlet over model frequencies, for several tables of log evidences at once."""
    s, n, k = logs.shape
    alpha = np.full((s, k), prior_count + n / k)
    for _ in range(MOST_ROUNDS):
        expected = digamma(alpha) - digamma(alpha.sum(axis=1, keepdims=True))
        share = probabilities(logs + expected[:, None], np.ones(k))
        fresh = prior_count + share.sum(axis=1)
        moved, alpha = np.abs(fresh - alpha).max(), fresh
        if moved <= TOLERANCE:
            break
    expected = digamma(alpha) - digamma(alpha.sum(axis=1, keepdims=True))
    bound = (share * (logs + expected[:, None]) - xlogy(share, share)).sum(axis=(1, 2))
    bound += gammaln(k * prior_count) - k * gammaln(prior_count) - gammaln(alpha.sum(axis=1))
    bound += (gammaln(alpha) + (prior_count - alpha) * expected).sum(axis=1)
    null = (logsumexp(logs, axis=2) - np.log(k)).sum(axis=1)
    return _Variational(alpha, share, bound, null)


def exceedance_probabilities(alpha: Float[ndarray, "s k"]) -> Float[ndarray, "s k"]:
    """Probability that each component of a Dirichlet is the largest.

    The components are independent gamma variables over their sum, so that it is E[Π P(gamma_j < gamma_k)]: one integral
    over the quantiles of gamma_k, where Gauss–Legendre nodes leave no noise.
    """
    nodes, weights = np.polynomial.legendre.leggauss(400)
    quantiles = gammaincinv(alpha[:, :, None], 0.5 * (nodes + 1))
    out = np.ones(quantiles.shape)
    for j in range(alpha.shape[1]):
        below = gammainc(alpha[:, j, None, None], quantiles)
        below[:, j] = 1.0
        out *= below
    chance = out @ (0.5 * weights)
    return chance / chance.sum(axis=1, keepdims=True)
