"""Optuna: the completed trials of a study, from the study itself or from its storage."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vsbq.data.evaluations import Evaluations
from vsbq.data.validation import refuse_result
from vsbq.errors import EvaluationsError, count_in_words, names_in_words
from vsbq.io.readers.traces import Pairs, Trace, column, make_evaluations, needed

__all__ = ["read_optuna"]


def read_optuna(source: Any, study_name: str | None, options: Mapping[str, Any]) -> Evaluations:
    """The completed trials of a study (or of the one study in a storage); its direction gives the sign."""
    study = source if hasattr(source, "directions") and hasattr(source, "get_trials") else _load(source, study_name)
    if len(study.directions) != 1:
        raise EvaluationsError(
            f"The study has {len(study.directions)} objectives, but a posterior needs one. Pass a study of the log "
            "density alone."
        )
    trials = study.get_trials(deepcopy=False)
    complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
    if not complete:
        raise EvaluationsError(f"The study has {count_in_words(len(trials), 'trial')}, none of them complete. Run it.")
    left = len(trials) - len(complete)
    notes = (
        [f"Left out {count_in_words(left, 'trial')} not completed (failed, pruned, waiting or running)."]
        if left
        else []
    )
    given = dict(options)
    sd = given.get("log_density_sd")
    if isinstance(sd, str):
        given["log_density_sd"] = _attribute(complete, sd)
    minimise = study.directions[0].name != "MAXIMIZE"
    trace = _trace(complete, "neg_log_density" if minimise else "log_density", notes)
    return make_evaluations(trace, given)


def _load(source: Any, study_name: str | None) -> Any:
    """A study from a storage: an URL, a file, or a storage object."""
    refuse_result(source)
    optuna = needed("Optuna", "optuna", lambda: __import__("optuna"))
    try:
        storage = _storage(source, optuna) if isinstance(source, str | os.PathLike) else source
        names = optuna.get_all_study_names(storage)
        wanted = study_name if study_name is not None else (names[0] if len(names) == 1 else None)
        if wanted is not None and wanted in names:
            return optuna.load_study(study_name=wanted, storage=storage)
    except EvaluationsError:
        raise
    except Exception as error:  # the storages raise what their databases raise
        raise EvaluationsError(
            f"No study can be read from {str(source)!r:.200} ({type(error).__name__}: {error!s:.200}). Pass a "
            "study, the URL or file of its storage, or a storage."
        ) from error
    known = f"Its studies are {names_in_words(names)}." if names else "It holds no study."
    which = "Pass study_name=." if study_name is None else f"There is no study '{study_name}'."
    raise EvaluationsError(f"The storage does not tell which study to read. {which} {known}")


def _storage(source: str | os.PathLike[str], optuna: Any) -> Any:
    """What Optuna opens; a file that is missing is refused, because opening a database would create it."""
    text = os.fspath(source)
    if "://" in text and not text.startswith("sqlite:///"):
        return text
    path = Path(text.removeprefix("sqlite:///").partition("?")[0])
    if not path.is_file():
        raise EvaluationsError(f"There is no file {str(path)!r}. Pass a study, the URL or file of its storage.")
    with path.open("rb") as stream:
        database = stream.read(16) == b"SQLite format 3\0"
    if database:
        return text if text.startswith("sqlite:///") else f"sqlite:///{path}"
    journal = optuna.storages.journal
    return optuna.storages.JournalStorage(journal.JournalFileBackend(str(path)))


def _trace(trials: Sequence[Any], meaning: Any, notes: Sequence[str]) -> Trace:
    names = sorted({name for trial in trials for name in trial.params})
    if not names:
        raise EvaluationsError("The trials have no parameters. Suggest them with trial.suggest_float.")
    absent = [name for name in names if any(name not in trial.params for trial in trials)]
    if absent:
        raise EvaluationsError(
            f"{names_in_words(absent)} is not in every trial: the search space is conditional. A posterior needs the "
            "same parameters everywhere; pass a study with one branch only."
        )
    names = list(trials[0].params)
    bounds, more = _bounds(trials, names)
    return Trace(
        points=np.column_stack([column([t.params[name] for t in trials], f"'{name}'") for name in names]),
        values=column([trial.value for trial in trials], "the objective"),
        meaning=meaning,
        names=tuple(names),
        bounds=bounds,
        notes=(*notes, *more),
    )


def _bounds(trials: Sequence[Any], names: Sequence[str]) -> tuple[Pairs, list[str]]:
    """The widest range that each parameter was suggested from; whatever is not a float is refused."""
    pairs, notes = [], []
    for name in names:
        found = {trial.distributions[name] for trial in trials}
        kinds = {type(each).__name__ for each in found if not each.single()} - {"FloatDistribution"}
        if kinds or any(isinstance(trial.params[name], str | bool | None) for trial in trials):
            kind = "an integer" if kinds == {"IntDistribution"} else "categorical"
            raise EvaluationsError(
                f"The parameter '{name}' is {kind}. A posterior needs continuous parameters: fix it to one value and "
                "run again, or keep only the trials of one value and pass them as arrays."
            )
        ranges = {_range(each) for each in found}
        pairs.append((min(low for low, _ in ranges), max(high for _, high in ranges)))
        if len(ranges) > 1:
            notes.append(f"The range of '{name}' changed between trials; the widest one bounds it.")
    return tuple(pairs), notes


def _range(distribution: Any) -> tuple[float, float]:
    if hasattr(distribution, "low"):
        return float(distribution.low), float(distribution.high)
    return (float(distribution.choices[0]),) * 2


def _attribute(trials: Sequence[Any], key: str) -> Any:
    absent = [trial.number for trial in trials if key not in trial.user_attrs]
    if absent:
        raise EvaluationsError(
            f"{count_in_words(len(absent), 'trial')} (first {absent[0]}) have no user attribute '{key}' for the noise. "
            f"Call trial.set_user_attr('{key}', sd) in the objective, or pass a number."
        )
    return column([trial.user_attrs[key] for trial in trials], f"the user attribute '{key}'")
