"""Whether the last calls left the posterior where it was.

A verdict looks at the fit, and every fit of an improvement has learnt from points that were chosen because the one
before was wrong there. What the fit before said, and the calls then found, is a test that it could not prepare for: if
they moved the posterior, the next ones may move it again.
"""

from __future__ import annotations

from collections.abc import Iterator

from vsbq.errors import count_in_words
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import THRESHOLDS, Finding, judged
from vsbq.posterior.diagnosis.distance import draws_distance

__all__ = ["settled"]

DRAWS = 4000

REMEDY = "More calls are needed before the posterior stays where it is."


def settled(before: Posterior, after: Posterior, values: int) -> Iterator[Finding]:
    """By how much so many new values have moved the posterior and its evidence, against the limits of refits."""
    calls = "the last call" if values == 1 else f"the last {count_in_words(values, 'call')}"
    distance = draws_distance(*(after.space.forward(post.sample(DRAWS, rng=0)) for post in (before, after)))
    words = f"The posterior moved by {distance:.0%} of its mass with {calls}."
    yield judged("moved", distance, THRESHOLDS.limit("refits"), words, REMEDY)
    change = abs(after.log_evidence - before.log_evidence)
    words = f"The log evidence moved by {change:.2g} with {calls}."
    yield judged("moved evidence", change, THRESHOLDS.limit("refit evidence"), words, REMEDY)
