"""Options that are numbers, with limits that catch slips of the keyboard."""

from __future__ import annotations

import secrets
from argparse import ArgumentParser, ArgumentTypeError, _ArgumentGroup
from dataclasses import dataclass

__all__ = ["Count", "add_seed", "seed_of"]


@dataclass(frozen=True)
class Count:
    """Reads a whole number from 1 to `most`."""

    most: int

    def __call__(self, text: str) -> int:
        """The number in a text."""
        value = _whole(text)
        if not 1 <= value <= self.most:
            raise ArgumentTypeError(f"{text!r:.60} is not between 1 and {self.most}.")
        return value


def add_seed(parser: ArgumentParser | _ArgumentGroup) -> None:
    """The option that makes a command repeatable."""
    parser.add_argument("--seed", type=_seed, metavar="N", help="of the random numbers; the same seed, the same result")


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
