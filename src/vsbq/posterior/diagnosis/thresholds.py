"""Every number that a verdict depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf, log
from typing import NamedTuple

__all__ = ["ALONE", "THRESHOLDS", "Limit", "Thresholds"]


#: From where on a fit is doubtful, and from where on it is rejected.
Pair = tuple[float, float]

#: What usable fits have, what would be a doubt by the sum, and from where on a fit is doubtful whatever else there is.
Span = tuple[float, float, float]

#: Findings that mean something by themselves and are not added to the others.
ALONE = frozenset({"refits", "refit_evidence", "input", "k_hat"})

#: Smaller numbers are all the same.
TINY = 1e-12


class Limit(NamedTuple):
    """A pair of thresholds. Where the second number is the smaller one, small numbers are bad."""

    doubtful: float
    rejected: float
    usual: float = 1.0
    whole: float = inf  # where the number alone makes a sum of one

    def level(self, number: float | None) -> str:
        """What a number means; nothing measured is a reason to doubt."""
        if number is None or number != number:
            return "doubtful"
        sign = -1.0 if self.rejected < self.doubtful else 1.0
        if sign * number >= sign * self.rejected:
            return "rejected"
        return "doubtful" if sign * number >= sign * self.doubtful else "trusted"

    def threshold(self, number: float | None) -> float:
        """The number of the two that decided."""
        return self.rejected if self.level(number) == "rejected" else self.doubtful

    def share(self, number: float | None) -> float:
        """How far a number is on its way, in logarithms, from what is usual, at zero, to a doubt, at one."""
        if number is None or number != number:
            return 0.0
        way = -inf if self.whole == 0 else log(self.whole / self.usual)
        return max(log(max(number, TINY) / self.usual) / way, 0.0)


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Limits of the findings, by their names.

    The first ones are added up: each number counts by its share of the way from what is usual to the second number, in
    logarithms. A sum of one is a doubt, and one of `rejected` a rejection; the third number is a doubt by itself.
    `benchmarks/choose_thresholds.py` chooses them from the development half of the study of verdicts; docs/trust.md has
    what they do.
    """

    open: Span = (0.17, inf, 1.9)  # expected error, as a multiple of what makes a posterior unusable
    cut_off: Span = (0.01, 5.3, 0.1)  # marginal density where belief ends, relative to its peak
    beyond: Span = (0.01, 6.7, 0.1)  # nats: mass beyond the outermost evaluations, as far as it is doubted
    support: Span = (0.011, inf, 0.7)  # share of the mass where the surrogate guesses or is not trusted
    around: Span = (0.01, inf, 1.0)  # mass that the surrogate sees where it is not trusted, relative to where it is
    unsure: Span = (0.056, inf, 0.65)  # share of the mass where the surrogate's sd is above half a nat
    surrogate: Span = (0.92, inf, 10.0)  # error of held-out blocks, in predicted standard deviations
    held_out: Span = (0.018, 1.1, 0.5)  # distance between the posteriors with and without a block of evaluations
    sisters: Span = (0.011, inf, 0.5)  # distance between the posteriors of the surrogates that are averaged over
    mixture: Span = (0.94, 0.0, 0.01)  # share of the draws that is effective
    bound: Span = (0.046, inf, 3.0)  # nats between the ELBO and the log evidence
    evidence: Span = (0.16, 5.9, 1.6)  # standard deviation of the log evidence
    ignored: Span = (0.01, inf, 3.0)  # nats by which the surrogate misses a high evaluation
    modes: Span = (0.01, 9.9, 1.0)  # coefficients of a quadratic over the evaluations in the poorest mode
    too_few: Span = (0.087, inf, 1.0)  # coefficients of a quadratic over the distinct evaluations under the posterior
    noise: Span = (1.0, inf, 10.0)  # factor by which the noise was not what it was said to be
    rejected: float = 1.5  # sum of the shares of the above from which on a fit is rejected
    refits: Pair = (0.10, 0.30)  # distance between this posterior and those of further fits
    refit_evidence: Pair = (0.5, 2.0)  # nats between their log evidences
    input: Pair = (1.0, inf)  # things the audit finds that no fit can repair
    k_hat: Pair = (0.7, 1.0)  # of the weights towards the model itself

    def limit(self, name: str) -> Limit:
        """The limits of a finding, by its name with or without spaces."""
        name = name.replace(" ", "_")
        if name == "together":
            return Limit(1.0, self.rejected)
        if name in ALONE:
            return Limit(*getattr(self, name))
        usual, whole, alone = getattr(self, name)
        farther = max if whole > usual else min
        return Limit(alone, farther(alone, usual * (whole / usual) ** self.rejected), usual, whole)

    def shares(self, numbers: Mapping[str, float | None]) -> dict[str, float]:
        """The share of each of the findings that are added up, by their names."""
        known = {field.name for field in fields(self)} - ALONE - {"rejected"}
        return {
            name: self.limit(name).share(number) for name, number in numbers.items() if name.replace(" ", "_") in known
        }

    def main(self, numbers: Mapping[str, float | None]) -> tuple[str, ...]:
        """The findings that make up half of the sum, the largest first."""
        shares = self.shares(numbers)
        ordered = sorted((name for name in shares if shares[name] > 0), key=lambda name: -shares[name])
        before = [sum(shares[name] for name in ordered[:k]) for k in range(len(ordered))]
        return tuple(
            name for name, sum_before in zip(ordered, before, strict=True) if 2 * sum_before < sum(shares.values())
        )


THRESHOLDS = Thresholds()
