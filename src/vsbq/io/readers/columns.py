"""Which column of a table means what: by the user's word, else by names that leave no doubt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from vsbq.data.losses import LOSS_WORDS, is_called_loss, loss_word
from vsbq.errors import Argument, EvaluationsError, Message, names_in_words
from vsbq.io.readers.number_format import hint
from vsbq.io.readers.table import Table

LIKELIHOOD = {"loglikelihood", "loglike", "loglik", "lnlike", "lnlikelihood", "logl", "lnl", "llh"}
KNOWN = {
    "log_density": {
        *(
            "logdensity",
            "logposterior",
            "logpost",
            "lnposterior",
            "lnpost",
            "logprob",
            "logprobability",
            "lnprob",
            "lp",
        ),
        *("logjoint", "logtarget", "logpdf", "lnpdf", "logp", "logtargetdensity", "lpdf"),
    },
    "neg_log_density": {
        f"{sign}{word}"
        for sign in ("neg", "negative", "minus")
        for word in ("logdensity", "logposterior", "logpost", "logprob", "logjoint", "logpdf", "logp", "lp")
    },
    "log_likelihood": LIKELIHOOD,
    "log_prior": {"logprior", "lnprior", "logpriordensity"},
    "log_density_sd": {
        *("logdensitysd", "logdensitystd", "logdensitysigma", "sdlogdensity", "logposteriorsd", "logprobsd", "lpsd"),
        *("logdensitynoise", "logdensitystderr", "logdensityse", "logpsd"),
    },
}
#: Whole numbers under these names count rows or runs; they are left out.
COUNTERS = {
    *("index", "iteration", "iter", "trial", "number", "run", "runid", "chain", "walker", "draw", "step", "evaluation"),
    *("eval", "generation", "id", "row", "participant", "fold", "seed", "call"),
}
#: These could be parameters, values or remarks: only the user knows.
DOUBTFUL = {
    *("value", "values", "score"),
    *("time", "timestamp", "duration", "seconds", "elapsed", "logweight", "accepted", "minuslogprior"),
}


#: Losses that may be minus a log density as they are, and what they must be for that.
DIRECT = {
    "nll": "the negative log likelihood with minus the log prior in it",
    "loss": "minus the log density, that is minus log likelihood minus log prior, with all factors",
}


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Columns by meaning; a number stands for a value that is the same in every row."""

    log_density: str | None = None
    neg_log_density: str | None = None
    log_likelihood: str | None = None
    log_prior: str | float | int | None = None
    log_density_sd: str | float | int | None = None

    def named(self) -> list[str]:
        """The names of the columns that have a meaning."""
        values = (getattr(self, each.name) for each in fields(self))
        return [value for value in values if isinstance(value, str)]

    @property
    def has_values(self) -> bool:
        """Whether it is told where the values are."""
        return any(each is not None for each in (self.log_density, self.neg_log_density, self.log_likelihood))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find_roles(table: Table, given: Roles) -> Roles:
    """The columns of values, prior and noise: given, or found by name."""
    table.check_names(given.named())
    found = {role: [name for name in table.columns if _plain(name) in words] for role, words in KNOWN.items()}
    if not given.has_values:
        found = _one_value(table, found, given)
    else:
        found |= {role: [] for role in ("log_density", "neg_log_density", "log_likelihood")}
    if given.log_density is not None or given.neg_log_density is not None:
        found["log_likelihood"] = []
    chosen = {each.name: getattr(given, each.name) for each in fields(given)}
    for role, names in found.items():
        if chosen[role] is None and names:
            if len(names) > 1:
                raise _ambiguous(table, f"the columns {names_in_words(names)} could all be the {role}")
            chosen[role] = names[0]
    return Roles(**chosen)


def _one_value(table: Table, found: dict[str, list[str]], given: Roles) -> dict[str, list[str]]:
    """Exactly one kind of value: a likelihood counts only where there is no posterior."""
    posterior = [role for role in ("log_density", "neg_log_density") if found[role]]
    if len(posterior) > 1:
        both = names_in_words([*found["log_density"], *found["neg_log_density"]])
        raise _ambiguous(table, f"the columns {both} could all be the values")
    if posterior:
        return found | {"log_likelihood": []}
    if not found["log_likelihood"]:
        raise _ambiguous(table, "no column is clearly the log density")
    if not found["log_prior"] and given.log_prior is None:
        which = names_in_words(found["log_likelihood"])
        why = f"{which} is a likelihood, which is no posterior without a prior (a column log_prior, or "
        raise _ambiguous(table, Message(why, Argument("log_prior"), ")"))
    return found


def questions(columns: Iterable[str]) -> list[str | Argument]:
    """What columns may hold that are called as losses are, and what to do if so; empty if there are none."""
    parts: list[str | Argument] = []
    for name in columns:
        word = loss_word(name)
        if word in DIRECT:
            parts += [f" Is '{name}' {DIRECT[word]}? Then pass ", Argument("neg_log_density", name), "."]
        elif word is not None:
            parts += [
                f" '{name}' may be {LOSS_WORDS[word]}. Make a column of log likelihoods of it, and pass ",
                *(Argument("log_likelihood", "NAME"), " with ", Argument("log_prior", "NAME"), "."),
            ]
    return parts


def _ambiguous(table: Table, why: str) -> EvaluationsError:
    return EvaluationsError(
        why,
        ".",
        *questions(table.columns),
        " Name the column with ",
        Argument("log_density", "NAME"),
        ", ",
        Argument("neg_log_density", "NAME"),
        " (if it was minimised) or ",
        Argument("log_likelihood", "NAME"),
        " with ",
        Argument("log_prior", "NAME"),
        f". The columns are {names_in_words(table.columns, 30)}.",
    )


def find_parameters(table: Table, roles: Roles, params: list[str] | None) -> tuple[list[str], list[str]]:
    """The columns of the parameters, given or all that are left, and notes on those left out."""
    if params is not None:
        table.check_names(params)
        return params, []
    if table.parameters:
        return list(table.parameters), _unused(table, roles)
    special = set().union(*KNOWN.values()) - {_plain(name) for name in roles.named()}
    others = [name for name in table.columns if name not in roles.named()]
    text = [name for name in others if table[name].is_text or not table[name].filled]
    _refuse_thousands(table, text)
    other_values = [name for name in others if _plain(name) in special and name not in text]
    counters = [name for name in others if _plain(name) in COUNTERS and _is_whole(table, name) and name not in text]
    left = [name for name in others if name not in (*text, *other_values, *counters)]
    doubtful = [name for name in left if _plain(name) in DOUBTFUL or is_called_loss(name)]
    if doubtful:
        raise EvaluationsError(
            f"the columns {names_in_words(doubtful)} may or may not be parameters. Name the parameters with ",
            Argument("params"),
            f". The columns are {names_in_words(table.columns, 30)}.",
        )
    if not left:
        raise EvaluationsError(
            "no numeric column is left for the parameters. Name the columns with ", Argument("params"), "."
        )
    words = {"hold no numbers": text, "hold other values": other_values, "count rows or runs": counters}
    notes = [f"Left out {names_in_words(names)}, which {why}." for why, names in words.items() if names]
    return left, notes


def _unused(table: Table, roles: Roles) -> list[str]:
    left = [name for name in table.columns if name not in (*table.parameters, *roles.named())]
    return [f"Left out {names_in_words(left)}: not among the points."] if left else []


def _refuse_thousands(table: Table, text: list[str]) -> None:
    """Columns of numbers with thousands apart are no text, and are not left out as such."""
    for name in text:
        trouble = table[name].trouble
        if trouble is not None and hint(trouble.cell):
            table.check_numbers([name])


def find_likelihood(table: Table) -> str | None:
    """The one column that is a log likelihood by its name."""
    found = [name for name in table.columns if _plain(name) in LIKELIHOOD]
    return found[0] if len(found) == 1 else None


def _is_whole(table: Table, name: str) -> bool:
    values = table[name].values
    return bool(np.all(values == np.round(values)))
