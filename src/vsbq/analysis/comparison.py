"""Which model? Evidences, Bayes factors and model probabilities, each with its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.data.row_labels import labels_of
from vsbq.errors import Argument, VsbqError, lists_options, names_in_words
from vsbq.posterior import Posterior
from vsbq.randomness import RandomState, Seed, one_of
from vsbq.tables import note, notebook_table

__all__ = [
    "CAVEAT",
    "Comparison",
    "ComparisonError",
    "Value",
    "compare",
    "probabilities",
    "read_value",
    "refuse_different_tags",
]

CAVEAT = (
    "Evidences can be compared only if all models saw the same data and every log density holds a normalised prior\n"
    "and all constants of the likelihood."
)

#: Of the columns of the table.
TITLES = ("log evidence", "sd", "log BF to best", "sd", "probability", "5 %", "95 %")

#: Draws of the log evidences that carry their uncertainty to what is computed from them.
DRAWS = 4000


class ComparisonError(VsbqError, ValueError):
    """These models can't be compared; the message says which and why."""


class Value(NamedTuple):
    """A log evidence, its sd, and the tag of the evaluations it comes from, if known."""

    log_evidence: float
    sd: float
    tag: str | None


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Log evidences, Bayes factors against the best model and model probabilities; prints as a table.

    `probability` takes the log evidences as they are; `probability_low` and `probability_high` are the central 90 % of
    what it could be if each log evidence is off by its sd.
    """

    names: tuple[str, ...]
    log_evidence: Float[ndarray, " k"]
    log_evidence_sd: Float[ndarray, " k"]
    prior: Float[ndarray, " k"]
    probability: Float[ndarray, " k"]
    probability_low: Float[ndarray, " k"]
    probability_high: Float[ndarray, " k"]

    @property
    def best(self) -> str:
        """Name of the model with the highest evidence."""
        return self.names[int(np.argmax(self.log_evidence))]

    @property
    def log_bayes_factor(self) -> Float[ndarray, "k k"]:
        """Row model over column model, in nats."""
        return self.log_evidence[:, None] - self.log_evidence[None, :]

    @property
    def log_bayes_factor_sd(self) -> Float[ndarray, "k k"]:
        """Standard deviation of each, zero for a model with itself."""
        out = np.hypot(self.log_evidence_sd[:, None], self.log_evidence_sd[None, :])
        np.fill_diagonal(out, 0.0)
        return out

    def bayes_factor(self, one: str, other: str) -> tuple[float, float]:
        """Log Bayes factor of one model over another, and its standard deviation."""
        unknown = [name for name in (one, other) if name not in self.names]
        if unknown:
            raise ComparisonError(f"There is no model {names_in_words(unknown)}. Use {names_in_words(self.names)}.")
        i, j = self.names.index(one), self.names.index(other)
        return float(self.log_bayes_factor[i, j]), float(self.log_bayes_factor_sd[i, j])

    def __str__(self) -> str:
        width = max(5, *(len(name) for name in self.names))
        lines = [f"{'model':<{width}}" + "".join(f"{title:>15}" for title in TITLES)]
        lines += [f"{name:<{width}}" + "".join(f"{text:>15}" for text in row) for name, *row in self._rows()]
        return "\n".join([*lines, CAVEAT])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return notebook_table(["model", *TITLES], self._rows(), below=note(CAVEAT))

    def _rows(self) -> list[list[str]]:
        """The models, the best first, with their numbers as text."""
        top, rows = int(np.argmax(self.log_evidence)), []
        for i in np.argsort(-self.log_evidence, kind="stable"):
            behind = (self.log_bayes_factor[i, top], self.log_bayes_factor_sd[i, top])
            evidence = (self.log_evidence[i], self.log_evidence_sd[i])
            chance = (self.probability[i], self.probability_low[i], self.probability_high[i])
            numbers = [*(f"{v:.3f}" for v in (*evidence, *behind)), *(f"{v:.4f}" for v in chance)]
            rows.append([self.names[i], *numbers])
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers by model, as for JSON."""
        top = int(np.argmax(self.log_evidence))
        columns = {
            "log_evidence": self.log_evidence,
            "log_evidence_sd": self.log_evidence_sd,
            "log_bayes_factor_to_best": self.log_bayes_factor[:, top],
            "log_bayes_factor_to_best_sd": self.log_bayes_factor_sd[:, top],
            "prior": self.prior,
            "probability": self.probability,
            "probability_low": self.probability_low,
            "probability_high": self.probability_high,
        }
        models = {name: {key: float(v[i]) for key, v in columns.items()} for i, name in enumerate(self.names)}
        return {"best": self.best, "models": models, "caveat": CAVEAT.replace("\n", " ")}


@lists_options("compare")
def compare(
    models: Mapping[str, Any],
    *,
    prior: Mapping[str, float] | ArrayLike | None = None,
    check_tags: bool = True,
    rng: RandomState = None,
    seed: Seed = None,
) -> Comparison:
    """Compare models by their evidence; evidences are comparable only for the same data and with normalised priors.

    Args:
        models: by name, each a `Posterior`, a log evidence, or a pair (log evidence, sd).
        prior: probability of each model before the data, by name or in order; equal if None.
        check_tags: refuse posteriors whose evaluations carry different tags.
        rng: for the uncertainty of the probabilities.
        seed: another word for an integer as `rng`.
    """
    if len(models) < 2:
        raise ComparisonError(f"A comparison takes at least two models, not {len(models)}.")
    names = tuple(map(str, models))
    values = [read_value(model, f"model '{name}'") for name, model in zip(names, models.values(), strict=True)]
    if check_tags:
        refuse_different_tags({name: value.tag for name, value in zip(names, values, strict=True)})
    logs, sds = np.array([v.log_evidence for v in values]), np.array([v.sd for v in values])
    chances = _prior(prior, names)
    drawn = logs + sds * np.random.default_rng(one_of(rng, seed)).standard_normal((DRAWS, len(logs)))
    low, high = np.quantile(probabilities(drawn, chances), [0.05, 0.95], axis=0)
    return Comparison(names, logs, sds, chances, probabilities(logs, chances), low, high)


def compare_with(post: Posterior, others: Any, names: Sequence[str] | None = None, **options: Any) -> Comparison:
    """Compare a posterior with another, several or a dict of them; see `Posterior.compare`."""
    if isinstance(others, Mapping):
        if names is not None and len(names) != 1:
            raise ComparisonError("Others by name leave one name to give: that of this posterior.")
        own = "this" if names is None else names[0]
        if own in others:
            raise ComparisonError(f"Two models have the name '{own}'. Pass names=['...'] to name this posterior.")
        return compare({own: post, **others}, **options)
    rest = [others] if isinstance(others, Posterior) or np.ndim(others) == 0 else list(others)
    given = [f"model {i}" for i in range(1, len(rest) + 2)] if names is None else list(names)
    if len(given) != len(rest) + 1 or len(set(given)) != len(given):
        raise ComparisonError(
            f"There are {len(rest) + 1} models with this one, but the names are {given}. Give each its own, this first."
        )
    return compare(dict(zip(given, [post, *rest], strict=True)), **options)


def read_value(model: Any, label: str) -> Value:
    """Log evidence, sd and tag of a posterior, a number or a pair."""
    if isinstance(model, Posterior):
        found = Value(model.log_evidence, model.log_evidence_sd, model.tag)
    else:
        try:
            numbers = np.asarray(model, dtype=np.float64).ravel()
            value, sd = (numbers[0], 0.0) if numbers.size == 1 else numbers
        except (TypeError, ValueError):
            raise ComparisonError(
                f"The evidence of {label} can't be read from {model!r}. Pass a Posterior, a log evidence, or a pair "
                "(log evidence, sd)."
            ) from None
        found = Value(float(value), float(sd), None)
    if not (np.isfinite(found.log_evidence) and np.isfinite(found.sd) and found.sd >= 0):
        raise ComparisonError(
            f"The log evidence of {label} is {found.log_evidence:g} with sd {found.sd:g}. Both must be finite, and the "
            "sd not negative."
        )
    return found


def refuse_different_tags(tags: Mapping[str, str | None]) -> None:
    """Tags say which data evaluations belong to; those that are not known are let pass."""
    known = {name: tag for name, tag in tags.items() if tag is not None}
    if len(set(known.values())) > 1:
        words = ", ".join(f"'{name}' has '{tag}'" for name, tag in known.items())
        raise ComparisonError(
            f"The evaluations carry different tags ({words}), so they may not be of the same data. Pass ",
            Argument("check_tags", False),
            " if the data are the same.",
        )


def _prior(prior: Any, names: tuple[str, ...]) -> Float[ndarray, " k"]:
    if prior is None:
        return np.full(len(names), 1.0 / len(names))
    labels = labels_of(prior)
    if labels is not None and any(isinstance(label, str) for label in labels):  # a series by name
        prior = dict(zip(map(str, labels), prior, strict=True))
    if isinstance(prior, Mapping) and set(prior) != set(names):
        raise ComparisonError(f"prior is for {names_in_words(prior)}, but the models are {names_in_words(names)}.")
    chances = np.array([prior[name] for name in names] if isinstance(prior, Mapping) else list(prior), dtype=np.float64)
    if chances.shape != (len(names),) or not np.isfinite(chances).all() or (chances < 0).any() or chances.sum() <= 0:
        raise ComparisonError(f"prior must hold one probability for each of {names_in_words(names)}, not {prior}.")
    return chances / chances.sum()


def probabilities(logs: Float[ndarray, "*s k"], prior: Float[ndarray, " k"]) -> Float[ndarray, "*s k"]:
    """Probabilities of models from their log evidences, with some probabilities before."""
    with np.errstate(divide="ignore"):
        joint = logs + np.log(prior)
    return np.exp(joint - logsumexp(joint, axis=-1, keepdims=True))
