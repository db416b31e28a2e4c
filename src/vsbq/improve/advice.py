"""What it would take, if calls at suggested points have not made a fit that can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vsbq.analysis.suggest import Suggesting, noise_of_next
from vsbq.errors import names_in_words
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis.measures import UNSURE
from vsbq.posterior.improvement import ImprovementStep

__all__ = ["advise"]

#: What each finding says that it would take.
STARTS = ("modes", "too few", "refinement", "cut off")
SHAPE = ("sisters", "surrogate", "held out", "ignored", "mixture", "bound")
REACH = ("open", "beyond", "support", "around", "unsure", "evidence")
VALUES = ("input", "noise")
MOVED = ("moved", "moved evidence")

#: By how much the error of the evidence has to fall for more calls to be worth a word.
FALLS = 0.8


def advise(post: Posterior, steps: Sequence[ImprovementStep]) -> str:
    """One sentence; empty for a posterior that is trusted."""
    if post.verdict == "trusted":
        return ""
    ways = [*_ways(post, steps)]
    ways.append("a sampler that starts from this posterior: post.start_ensemble(walkers) or post.mass_matrix()")
    return f"It would take {'; or '.join(ways)}."


def _ways(post: Posterior, steps: Sequence[ImprovementStep]) -> Iterator[str]:
    reasons = post.diagnose().causes
    noise = noise_of_next(post, Suggesting())
    if found := [name for name in VALUES if name in reasons]:
        yield f"values that are as stated ({names_in_words(found)}; vsbq.audit tells more)"
    if "unsure" in reasons and noise > UNSURE:
        yield f"calls with less noise than {noise:.2g} nats, such as means of {_repeats(noise)} calls each"
    if found := [name for name in MOVED if name in reasons]:
        yield f"more calls, since the last ones still moved the posterior ({names_in_words(found)})"
    if found := [name for name in STARTS if name in reasons]:
        yield f"more runs of the optimiser, from other starts ({names_in_words(found)})"
    if found := [name for name in REACH if name in reasons]:
        if _falls(steps):
            yield f"more calls, since those so far have helped ({names_in_words(found)})"
        elif not any(name in reasons for name in STARTS):
            yield f"more runs of the optimiser, from other starts ({names_in_words(found)})"
    if found := [name for name in SHAPE if name in reasons]:
        yield (
            "another parametrisation, such as the logarithm of a scale, in which the log density is smoother "
            f"({names_in_words(found)})"
        )


def _repeats(noise: float) -> int:
    return int(-(-(noise**2) // UNSURE**2))


def _falls(steps: Sequence[ImprovementStep]) -> bool:
    first, last = steps[0], steps[-1]
    return len(last.reasons) < len(first.reasons) or last.log_evidence_sd < FALLS * first.log_evidence_sd
