"""The command line: parse, call, write; the work is done elsewhere."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from vsbq._version import __version__
from vsbq.cli import audit, bench, compare, demo, fit, fit_many, report, sample, suggest, update
from vsbq.cli.terminal import UsageError, say_error
from vsbq.errors import VsbqError, nearest

__all__ = ["COMMANDS", "main"]

DONE, FAILED, WRONG_USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

MAY_BE_NEGATIVE = {"--zero-below", "--log-prior"}
NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-inf")

COMMANDS = {
    "demo": demo,
    "audit": audit,
    "fit": fit,
    "fit-many": fit_many,
    "report": report,
    "sample": sample,
    "suggest": suggest,
    "update": update,
    "compare": compare,
    "bench": bench,
}
DESCRIPTION = """\
Posteriors from the log-density evaluations that an optimiser left behind; your model is not called again.
"""
EPILOG = """\
examples:
  vsbq demo                                  see it work, in half a minute
  vsbq audit evaluations.csv                 what is in my table?
  vsbq fit evaluations.csv -o out            posterior, samples and a report in the folder out
  vsbq fit-many data/*.csv -o fits           one fit for each file, resumable
  vsbq sample out -n 1000 > draws.csv        more draws
  vsbq suggest out -n 20 -o batch.csv        what to evaluate next; then vsbq update out batch.csv -o out2
  vsbq compare out-model1 out-model2         which model?

`vsbq COMMAND --help` tells the rest, with examples.
Exit codes: 0 done, 1 it failed (why is on stderr), 2 wrong usage, 3 some fits of fit-many failed, 4 fitted but rejected
(vsbq fit, vsbq update), 130 interrupted by Ctrl-C, 143 terminated.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 it failed (why is on stderr), 2 wrong usage."""
    given = _with_numbers(sys.argv[1:] if arguments is None else arguments)
    if not given:
        _parser().print_help(sys.stderr)
        return WRONG_USAGE
    in_json, interrupted = "--json" in given, "interrupted; no file was changed"
    try:
        options = _parser().parse_args(given)
        interrupted = getattr(options, "interrupted", interrupted)
        with _tidy_termination():
            code: int = options.run(options)
        return code
    except BrokenPipeError:  # whoever reads has enough, as in `vsbq sample out | head`
        _close_stdout()
        return DONE
    except KeyboardInterrupt:
        return _failed(INTERRUPTED, "Interrupted", interrupted, in_json)
    except _TerminatedError:
        return _failed(TERMINATED, "Terminated", interrupted.replace("interrupted", "terminated"), in_json)
    except UsageError as error:
        return _failed(WRONG_USAGE, "UsageError", error.message, in_json)
    except VsbqError as error:
        return _failed(FAILED, type(error).__name__, error.message, in_json)
    except OSError as error:
        _close_stdout()
        return _failed(FAILED, type(error).__name__, str(error), in_json)
    except ImportError as error:
        return _failed(FAILED, type(error).__name__, str(error), in_json)
    except MemoryError:
        return _failed(FAILED, "MemoryError", "there is not enough memory. Use fewer evaluations or draws.", in_json)
    except Exception as error:
        if os.environ.get("VSBQ_DEBUG"):
            raise
        message = (
            f"an unexpected {type(error).__name__} ({error}). This is a bug in vsbq, and a report of it is welcome; "
            "with VSBQ_DEBUG=1 in the environment the same command tells more."
        )
        return _failed(FAILED, "InternalError", message, in_json)


def _with_numbers(arguments: Sequence[str]) -> list[str]:
    """The arguments, a negative number put into one word with its option: alone, argparse takes -1e9 for an option."""
    words: list[str] = []
    for word in arguments:
        if words and words[-1] in MAY_BE_NEGATIVE and NEGATIVE.fullmatch(word):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _failed(code: int, kind: str, message: str, in_json: bool) -> int:
    say_error(message, code=code, kind=kind, in_json=in_json)
    return code


def _close_stdout() -> None:
    """What could not be printed is not tried again when Python ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Says what is wrong on one line, and where the help is, instead of printing all options."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what is not known where the nearest option is known."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            known = [name for name in self._option_string_actions if name.startswith("--")]
            remedy = f" {nearest(unknown[0].partition('=')[0], known)}" if unknown[0].startswith("--") else ""
            self.error(f"unknown arguments: {' '.join(unknown)}.{remedy}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Wrong usage."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="vsbq", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"vsbq {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        described = {"help": command.HELP, "description": command.DESCRIPTION, "epilog": command.EPILOG}
        command.add(commands.add_parser(name, **described))
    return parser


class _TerminatedError(BaseException):
    """Someone wants this process to end, as a cluster does when time is up: tidy up first."""


def _stop(*_: Any) -> NoReturn:
    raise _TerminatedError


@contextmanager
def _tidy_termination() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that no drafts of files are left; only the main thread may do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
