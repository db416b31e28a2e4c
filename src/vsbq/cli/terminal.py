"""What a command says, and where: words or JSON on stdout, warnings and errors on stderr, one line each.

Here are also the log of a fit, which keeps what is said, and the errors and options that all commands share.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import sys
import textwrap
import warnings
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace, _ArgumentGroup
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from types import TracebackType
from typing import Any

from vsbq.errors import Argument, Message, VsbqError, VsbqWarning
from vsbq.io.readers.columns import KNOWN
from vsbq.progress import logger

#: Characters of a line in a terminal: longer ones are hard to read, and what is left of shorter ones holds no sentence.
WIDEST, NARROWEST = 110, 30

__all__ = [
    "Count",
    "FileError",
    "FitLog",
    "Terminal",
    "UsageError",
    "add_output_options",
    "add_seed",
    "as_json",
    "coloured",
    "escaped",
    "hanging",
    "in_options",
    "say_error",
    "seed_of",
    "write",
]

LONGEST_MESSAGE = 1600


class UsageError(VsbqError):
    """The options can't be meant as they are; the exit code is 2."""


class FileError(VsbqError):
    """A file can't be read or written; the message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Terminal:
    """Where a command speaks. With `json` words are left out and warnings become part of the result."""

    json: bool = False
    quiet: bool = False
    progress: bool | None = None  # None: a bar if stderr is a terminal, else a line for each stage
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, options: Namespace) -> Terminal:
        """As the options of a command say."""
        quiet, bar = bool(getattr(options, "quiet", False)), bool(getattr(options, "progress", False))
        if quiet and bar:
            raise UsageError("--quiet and --progress contradict each other. Give one of them.")
        in_json, watched = bool(options.json), sys.stderr is not None and sys.stderr.isatty()
        silent = quiet or (in_json and not watched)  # stderr of a program holds JSON or nothing
        return cls(json=in_json, quiet=quiet, progress=True if bar else False if silent else None)

    def say(self, text: str = "") -> None:
        """Words for a person on stdout."""
        if not (self.json or self.quiet):
            write(text, sys.stdout)

    def title(self, text: str) -> None:
        """A heading."""
        self.say(f"\n{coloured(text, '1', sys.stdout)}\n")

    def facts(self, pairs: Mapping[str, str]) -> None:
        """Names and values in two columns."""
        width = max(map(len, pairs), default=0) + 3
        for name, value in pairs.items():
            self.item(f"  {name:<{width}}", escaped(value))

    def item(self, head: str, text: str, colour: str = "") -> None:
        """Words behind a head, further lines below the words."""
        self.say(hanging(head, text, sys.stdout, colour))

    def warn(self, message: str) -> None:
        """Something to know, once, on stderr."""
        line = _one_line(in_options(message))
        if line in self.warnings:
            return
        self.warnings.append(line)
        if not self.json:
            write(hanging("attention: ", line, sys.stderr, "33"), sys.stderr)

    def result(self, values: Mapping[str, Any]) -> None:
        """The JSON object, if one was asked for."""
        if self.json:
            write(as_json({**values, "warnings": [*values.get("warnings", ()), *self.warnings]}), sys.stdout)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Python's warnings as lines: our own for the user, others for the log."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", VsbqWarning)
            warnings.showwarning = self._hear
            yield

    def _hear(self, message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, VsbqWarning):
            self.warn(message if isinstance(message, str) else Message(*message.args))
        logger.warning("%s: %s", category.__name__, escaped(str(message)))


def say_error(message: str, *, code: int, kind: str, in_json: bool) -> None:
    """Why it did not work, as one line or as JSON on stderr."""
    line = _one_line(in_options(message))
    if in_json:
        write(as_json({"error": {"code": code, "kind": kind, "message": line}}, indent=None), sys.stderr)
    else:
        write(hanging("vsbq: ", line, sys.stderr, "31"), sys.stderr)


def as_json(value: Any, indent: int | None = 2) -> str:
    """JSON as the standard has it: what is not finite is null."""
    return json.dumps(_standard(value), indent=indent, allow_nan=False)


def _standard(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _standard(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_standard(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def coloured(text: str, code: str, stream: Any) -> str:
    """Text in a colour, in a terminal whose owner has not said no (see no-color.org)."""
    wanted = (
        stream is not None and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )
    return f"\x1b[{code}m{text}\x1b[0m" if wanted else text


def hanging(head: str, text: str, stream: Any, colour: str = "") -> str:
    """Words behind a head, broken between words in a terminal; one line for a file or another program."""
    painted = coloured(head.rstrip(), colour, stream) + head[len(head.rstrip()) :] if colour else head
    if stream is None or not stream.isatty():
        return painted + text
    width = min(shutil.get_terminal_size().columns, WIDEST) - len(head)
    lines = textwrap.wrap(text, max(width, NARROWEST), break_long_words=False, break_on_hyphens=False)
    return painted + ("\n" + " " * len(head)).join(lines)


def write(text: str, stream: Any) -> None:
    """Print, also where the stream can't show all characters, or is closed."""
    if stream is not None:
        encoding = stream.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


# Words


#: Arguments of the library for which there is an option of another name, when no column is meant.
OTHER_NAMES = {"neg_log_density": "--neg", "log_density_sd": "--sd NUMBER or --column log_density_sd=NAME"}


def in_options(message: str) -> str:
    """A message of the library, with the options of the command line for the arguments that it advises."""
    return message.worded(_option) if isinstance(message, Message) else message


def _option(argument: Argument) -> str:
    """The option that stands for an argument."""
    name, value, _ = argument
    if value is None and name in OTHER_NAMES:
        return OTHER_NAMES[name]
    if name in KNOWN:
        return f"--column {name}={value or 'NAME'}"
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    shown = "" if value is None else f" {value}" if str(value).replace("-", "").isalnum() else f" {value!r}"
    return f"--{flag}{shown}"


def escaped(text: str) -> str:
    """Text that moves no cursor and breaks no line: control and other invisible characters as escapes."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _one_line(text: str) -> str:
    """A message on one line, its middle left out if it is very long."""
    line = escaped(text)
    if len(line) <= LONGEST_MESSAGE:
        return line
    return f"{line[: LONGEST_MESSAGE // 2]} [...] {line[-LONGEST_MESSAGE // 2 :]}"


# The log of a fit


class FitLog(logging.Handler):
    """Keeps what the library says of its steps while it is open; the logger is left as it was."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: list[str] = []
        self._level = logger.level
        self.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self._lines.append(_one_line(self.format(record)))

    def say(self, message: str) -> None:
        """A line of our own, for nobody else to hear."""
        self.handle(logging.makeLogRecord({"msg": "%s", "args": (message,), "levelno": logging.INFO}))

    @property
    def text(self) -> str:
        """All lines so far."""
        return "".join(f"{line}\n" for line in self._lines)

    def __enter__(self) -> FitLog:
        self._level = logger.level
        if logger.getEffectiveLevel() > logging.INFO:
            logger.setLevel(logging.INFO)
        logger.addHandler(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        logger.removeHandler(self)
        logger.setLevel(self._level)


# Options that several commands have


def add_output_options(parser: ArgumentParser, *, quiet: bool = True, progress: bool = False) -> None:
    """The options of every command on what it prints."""
    group = parser.add_argument_group("output on the terminal")
    group.add_argument("--json", action="store_true", help="print one JSON object on stdout; errors are JSON on stderr")
    if quiet:
        group.add_argument("-q", "--quiet", action="store_true", help="print nothing but warnings and errors")
    if progress:
        group.add_argument(
            "--progress",
            action="store_true",
            help="show the progress bar even if stderr is no terminal",
        )


@dataclass(frozen=True)
class Count:
    """Reads a whole number from 1 to `most`, a limit that catches slips of the keyboard."""

    most: int

    def __call__(self, text: str) -> int:
        """The number in a text."""
        value = _whole(text)
        if not 1 <= value <= self.most:
            raise ArgumentTypeError(f"{text!r:.60} is not between 1 and {self.most}.")
        return value


def add_seed(parser: ArgumentParser | _ArgumentGroup) -> None:
    """The option that makes a command repeatable."""
    words = "of the random numbers; the same seed, the same result"
    parser.add_argument("--seed", "--rng", type=_seed, action=_Once, dest="seed", metavar="N", help=words)


class _Once(Action):
    """Keeps a value; a second one, under whatever name of the option, is refused."""

    def __call__(self, parser: ArgumentParser, options: Namespace, values: Any, used: str | None = None) -> None:
        if getattr(options, self.dest) is not None:
            parser.error(f"{' and '.join(self.option_strings)} mean the same. Give one of them, once.")
        setattr(options, self.dest, values)


def seed_of(given: int | None) -> int:
    """The seed, or one drawn from the operating system, so that there always is one to write down."""
    return secrets.randbelow(10**9) if given is None else given


def _seed(text: str) -> int:
    value = _whole(text)
    if not 0 <= value < 2**63:
        raise ArgumentTypeError(f"{text!r:.60} is no seed. Give a whole number from 0 to 2**63 - 1.")
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r:.60} is no whole number.") from None
