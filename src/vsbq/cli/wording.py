"""Messages for the terminal: one line, no control characters, and options instead of Python's arguments."""

from __future__ import annotations

import re
from difflib import get_close_matches

from vsbq.errors import VsbqError, names_in_words

__all__ = ["UsageError", "as_options", "escaped", "nearest", "one_line"]

LONGEST_MESSAGE = 1600

#: What messages of the library advise, and how it is done on the command line.
OPTIONS = (
    (r"nonfinite='(\w+)'", r"--nonfinite \1"),
    (r"outside='(\w+)'", r"--outside \1"),
    (r"check_sign=False", "--no-check-sign"),
    (r"check_tags=False", "--no-check-tags"),
    (r"use with_tag\b", "use --tag"),
    (r"\b(decimal|thousands)=('.'|\"'\")", r"--\1 \2"),
    (r"overwrite=True", "--overwrite"),
    (r"pass encoding=, such as 'cp1252'", "pass --encoding, such as --encoding cp1252"),
    (r"\bparams=", "--params"),
    (r"Pass them as neg_log_density= if", "Pass --neg if"),
    (r"Pass log_density_sd if", "Pass --sd NUMBER or --column log_density_sd=NAME if"),
    (r"Use vsbq\.load\(path\)\.evaluations", "It goes to vsbq report, sample, compare or suggest"),
    (r"\b((?:neg_)?log_density|log_likelihood|log_prior|log_density_sd)=(?![\w'\"])", r"--column \1=NAME"),
)


class UsageError(VsbqError):
    """The options can't be meant as they are; the exit code is 2."""


def as_options(message: str) -> str:
    """A message of the library in the words of the command line."""
    for pattern, option in OPTIONS:
        message = re.sub(pattern, option, message)
    return message


def escaped(text: str) -> str:
    """Text that moves no cursor and breaks no line: control and other invisible characters as escapes."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """A message on one line, its middle left out if it is very long."""
    line = escaped(text)
    if len(line) <= LONGEST_MESSAGE:
        return line
    return f"{line[: LONGEST_MESSAGE // 2]} [...] {line[-LONGEST_MESSAGE // 2 :]}"


def nearest(word: str, known: list[str]) -> str:
    """A remedy for a word that is not known: the nearest one, or all there are."""
    found = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"Did you mean '{found[0]}'?" if found else f"There are {names_in_words(known, 20)}."
