"""`vsbq compare`: which model, from saved posteriors of one data set or of a group of participants."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path

from vsbq.analysis.comparison import compare
from vsbq.analysis.group_comparison import compare_groups
from vsbq.cli.input import POSTERIOR, load_posterior
from vsbq.cli.terminal import FileError, Terminal, UsageError, add_output_options, add_seed, escaped, seed_of
from vsbq.errors import names_in_words

__all__ = ["DESCRIPTION", "EPILOG", "HELP", "add", "run"]

HELP = "which model: Bayes factors and probabilities from saved posteriors"
DESCRIPTION = """\
Compare models by their log evidence: Bayes factors and model probabilities, each with its error. Each MODEL is a
posterior file or a folder of `vsbq fit`, or NAME=PATH to name it. With --group each MODEL is a folder that holds one of
these for every participant, under the same names in every model.
"""
EPILOG = """\
examples:
  vsbq compare out-full out-reduced
  vsbq compare full=fits/m1/posterior.npz reduced=fits/m2/posterior.npz --json
  vsbq compare --group fits/full fits/reduced          fits/full/anna, fits/full/ben.npz, fits/reduced/anna, ...

Evidences can be compared only if all models saw the same data and every log density holds a normalised prior and all
constants of the likelihood.
Exit codes: 0 done, 1 it failed (why is on stderr), 2 wrong usage, 130 interrupted.
"""


def add(parser: ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("models", nargs="+", metavar="MODEL", help="two or more posteriors, as PATH or NAME=PATH")
    parser.add_argument("--group", action="store_true", help="random-effects selection over participants")
    parser.add_argument("--no-check-tags", dest="check_tags", action="store_false", help="the data are the same")
    add_seed(parser)
    add_output_options(parser, quiet=False)
    parser.set_defaults(run=run)


def run(options: Namespace) -> int:
    """Load, compare, print."""
    terminal = Terminal.of(options)
    places = _named(options.models)
    how = {"check_tags": options.check_tags, "rng": seed_of(options.seed)}
    with terminal.listening():
        if options.group:
            table = {name: {who: load_posterior(p) for who, p in _people(path)} for name, path in places.items()}
            group = compare_groups(table, **how)
            terminal.say(str(replace(group, models=tuple(map(escaped, group.models)))))
            terminal.result(group.to_dict())
        else:
            found = compare({name: load_posterior(path) for name, path in places.items()}, **how)
            terminal.say(str(replace(found, names=tuple(map(escaped, found.names)))))
            terminal.result(found.to_dict())
    return 0


def _named(models: list[str]) -> dict[str, Path]:
    """Models by name: told, or from the path."""
    if len(models) < 2:
        raise UsageError("A comparison takes at least two models. Pass two or more posteriors.")
    found: dict[str, Path] = {}
    for text in models:
        name, equals, rest = text.partition("=")
        told = bool(name and equals and rest) and not _is_there(text)
        path = Path(rest if told else text)
        name = name if told else _name(path)
        if name in found:
            raise UsageError(f"Two models are called '{name}'. Name them: NAME={path}")
        found[name] = path
    return found


def _is_there(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def _name(path: Path) -> str:
    """The folder of a fit, or the file without its suffix."""
    return path.parent.name if path.name == POSTERIOR and path.parent.name else path.stem or str(path)


def _people(path: Path) -> list[tuple[str, Path]]:
    """The participants of a model: folders of fits and posterior files, by name."""
    try:
        inside = sorted(path.iterdir())
    except (OSError, ValueError) as error:
        raise FileError(f"{str(path)!r} is no folder of participants ({error!s:.200}).") from error
    folders = [entry for entry in inside if (entry / POSTERIOR).is_file()]
    files = [entry for entry in inside if entry.suffix == ".npz" and entry.is_file()]
    found = [*((entry.name, entry) for entry in folders), *((entry.stem, entry) for entry in files)]
    names = [name for name, _ in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not found or twice:
        why = f"holds {names_in_words(twice)} twice" if twice else "holds no posteriors"
        raise FileError(
            f"{str(path)!r} {why}. Put one posterior file or folder of vsbq fit in it for each participant."
        )
    return found
