"""Every number that a verdict depends on."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

__all__ = ["THRESHOLDS", "Limit", "Thresholds"]


#: From where on a fit is doubtful, and from where on it is rejected.
Pair = tuple[float, float]


class Limit(NamedTuple):
    """A pair of thresholds. Where the second number is the smaller one, small numbers are bad."""

    doubtful: float
    rejected: float

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


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Limits of the findings, by their names. A limit of doubt lies above what all but two of the usable fits of the
    development half have, of those that have been run; docs/trust.md has what they do."""

    cut_off: Pair = (0.10, 0.30)  # marginal density where belief ends, relative to its peak
    beyond: Pair = (0.05, 0.60)  # nats: mass beyond the outermost evaluations, as far as it is doubted
    support: Pair = (0.22, 0.60)  # share of the mass where the surrogate guesses or is not trusted
    around: Pair = (0.30, 10.0)  # mass that the surrogate sees where it is not trusted, relative to that where it is
    unsure: Pair = (0.65, 0.95)  # share of the mass where the surrogate's sd is above half a nat
    surrogate: Pair = (3.0, 30.0)  # error of held-out blocks, in predicted standard deviations
    held_out: Pair = (0.21, 0.63)  # distance between the posteriors with and without a block of evaluations
    sisters: Pair = (0.10, 0.40)  # distance between the posteriors of the surrogates that are averaged over
    refits: Pair = (0.10, 0.30)  # distance between this posterior and those of further fits
    refit_evidence: Pair = (0.5, 2.0)  # nats between their log evidences
    mixture: Pair = (0.02, 0.001)  # share of the draws that is effective
    bound: Pair = (0.7, 5.0)  # nats between the ELBO and the log evidence
    evidence: Pair = (0.7, 3.0)  # standard deviation of the log evidence
    ignored: Pair = (3.0, 30.0)  # nats by which the surrogate misses a high evaluation
    modes: Pair = (1.0, 3.0)  # coefficients of a quadratic over the evaluations in the poorest mode
    too_few: Pair = (0.5, 3.0)  # coefficients of a quadratic over the distinct evaluations under the posterior
    noise: Pair = (3.0, inf)  # factor by which the noise was not what it was said to be
    input: Pair = (1.0, inf)  # things the audit finds that no fit can repair
    k_hat: Pair = (0.7, 1.0)  # of the weights towards the model itself

    def limit(self, name: str) -> Limit:
        """The pair of a finding, by its name with or without spaces."""
        doubtful, rejected = getattr(self, name.replace(" ", "_"))
        return Limit(doubtful, rejected)


THRESHOLDS = Thresholds()
