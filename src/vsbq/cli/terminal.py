"""What a command says, and where: words or JSON on stdout, warnings and errors on stderr, one line each."""

from __future__ import annotations

import json
import os
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from vsbq.cli.wording import UsageError, as_options, escaped, one_line
from vsbq.errors import VsbqWarning
from vsbq.progress import logger

__all__ = ["Terminal", "add_output_options", "say_error"]


def add_output_options(parser: ArgumentParser, *, quiet: bool = True, progress: bool = False) -> None:
    """The options of every command on what it prints."""
    group = parser.add_argument_group("output on the terminal")
    group.add_argument("--json", action="store_true", help="print one JSON object on stdout; errors are JSON on stderr")
    if quiet:
        group.add_argument("-q", "--quiet", action="store_true", help="print nothing but warnings and errors")
    if progress:
        group.add_argument(
            "--progress", action="store_true", help="show the progress bar even if stderr is no terminal"
        )


@dataclass(frozen=True, kw_only=True)
class Terminal:
    """Where a command speaks. With `json` words are left out and warnings become part of the result."""

    json: bool = False
    quiet: bool = False
    progress: bool | None = None  # None: a bar if stderr is a terminal
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, options: Namespace) -> Terminal:
        """As the options of a command say."""
        quiet, bar = bool(getattr(options, "quiet", False)), bool(getattr(options, "progress", False))
        if quiet and bar:
            raise UsageError("--quiet and --progress contradict each other. Give one of them.")
        return cls(json=bool(options.json), quiet=quiet, progress=True if bar else False if quiet else None)

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
            self.say(f"  {name:<{width}}{escaped(value)}")

    def warn(self, message: str) -> None:
        """Something to know, once, on stderr."""
        line = one_line(as_options(message))
        if line in self.warnings:
            return
        self.warnings.append(line)
        if not self.json:
            write(f"{coloured('attention:', '33', sys.stderr)} {line}", sys.stderr)

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
            self.warn(str(message))
        logger.warning("%s: %s", category.__name__, escaped(str(message)))


def say_error(message: str, *, code: int, kind: str, in_json: bool) -> None:
    """Why it did not work, as one line or as JSON on stderr."""
    line = one_line(as_options(message))
    if in_json:
        write(as_json({"error": {"code": code, "kind": kind, "message": line}}, indent=None), sys.stderr)
    else:
        write(f"{coloured('vsbq:', '31', sys.stderr)} {line}", sys.stderr)


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


def write(text: str, stream: Any) -> None:
    """Print, also where the stream can't show all characters, or is closed."""
    if stream is not None:
        encoding = stream.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
