"""From numbers to findings: each check says what it found, in words that name parameters or rows, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vsbq.data.audit import BEYOND_REPAIR, audit
from vsbq.errors import count_in_words, join_words, rows_in_words
from vsbq.history import ERRORS, Evidence
from vsbq.posterior.diagnosis.edges import edges
from vsbq.posterior.diagnosis.expected import expected_error
from vsbq.posterior.diagnosis.finding import Diagnosis, Finding
from vsbq.posterior.diagnosis.measures import (
    UNSURE,
    Rows,
    View,
    distinct,
    held_out_distance,
    ignored,
    mode_counts,
    sister_distance,
)
from vsbq.posterior.diagnosis.thresholds import THRESHOLDS, Limit, Thresholds

if TYPE_CHECKING:
    from vsbq.posterior.posterior import Posterior

__all__ = ["diagnose", "judged", "together"]

MORE = "Evaluate what post.suggest(20) says and pass the values to post.update, or start more runs of the optimiser."
#: How far a surrogate has to be tested, by its own account, where the results of the tests are not there.
TESTED = 0.5
ABSENT = "The file holds neither surrogate nor evaluations, so that nothing can be checked."


def diagnose(post: Posterior, thresholds: Thresholds = THRESHOLDS) -> Diagnosis:
    """Every check that needs nothing but what the fit left, and all of them together."""
    single = tuple(_findings(post, thresholds))
    return Diagnosis.of([*single, together(single, thresholds)] if len(single) > 1 else single)


def together(findings: Sequence[Finding], limits: Thresholds) -> Finding:
    """What the numbers mean that are added up: several that are near their limits are a doubt as well."""
    numbers = {finding.name: finding.number for finding in findings}
    shares = limits.shares(numbers)
    total = sum(shares.values())
    told = join_words([f"{name} {shares[name]:.0%}" for name in limits.main(numbers)])
    words = f"Together the checks use {total:.0%} of what a trusted fit may have"
    words += f", most of it {told}." if told else "."
    return judged("together", total, limits.limit("together"), words, MORE)


def judged(name: str, number: float | None, limit: Limit, message: str, remedy: str = "") -> Finding:
    """A finding with the level that its number deserves; without objection there is no remedy."""
    level = limit.level(number)
    plain = None if number is None or not np.isfinite(number) else float(number)
    threshold = limit.threshold(number)
    shown = threshold if np.isfinite(threshold) else None
    return Finding(name, level, plain, shown, message, "" if level == "trusted" else remedy)


def _findings(post: Posterior, limits: Thresholds) -> Iterator[Finding]:
    view, rows = View.of(post), Rows.of(post)
    if view is None or rows is None:
        yield Finding("record", "doubtful", None, None, ABSENT, "Save the posterior without compact=True.")
        return
    yield _input(post, limits.limit("input"))
    yield from _refinement(post)
    yield _open(view, limits.limit("open"))
    yield _cut_off(post, view, limits.limit("cut off"))
    yield from _evidence_parts(post, limits)
    yield _unsure(view, limits.limit("unsure"))
    yield _surrogate(post, view, limits.limit("surrogate"))
    yield _held_out(view, limits.limit("held out"))
    yield _sisters(view, limits.limit("sisters"))
    yield from _mixture(post, limits)
    yield _evidence(post, limits.limit("evidence"))
    yield _ignored(view, rows, limits.limit("ignored"))
    yield _modes(post, view, rows, limits.limit("modes"))
    yield _too_few(view, rows, limits.limit("too few"))
    yield from _noise(post, limits.limit("noise"))


def _refinement(post: Posterior) -> Iterator[Finding]:
    tried = None if post.history is None else post.history.refinement
    if tried is not None and tried.method == "none":
        words = "The mixture lies where the surrogate is not trusted: no draw of the posterior rests on evaluations."
        yield Finding("refinement", "rejected", tried.share_outside, None, words, MORE)
    elif post.refined is None:
        words = "The posterior was not refined on the surrogate, so that what it misses is not known."
        yield Finding("refinement", "doubtful", None, None, words, "Fit with Settings(refine=True), the default.")


def _open(view: View, limit: Limit) -> Finding:
    found = expected_error(view)
    words = (
        f"What the evaluations leave open moves the posterior by {min(found.marginals, 1.0):.0%} of its mass and the "
        f"log evidence by {found.evidence:.2g}: {found.worst:.2g} times what makes a posterior unusable."
    )
    return judged("open", found.worst, limit, words, MORE)


def _cut_off(post: Posterior, view: View, limit: Limit) -> Finding:
    found = sorted(edges(view), key=lambda edge: -edge.cut)
    worst = found[0].cut
    high = [edge for edge in found if limit.level(edge.cut) != "trusted"]
    ends = []
    for edge in sorted(high):
        centre = np.zeros((1, post.dimension))
        centre[0, edge.parameter] = edge.end
        value = post.space.inverse(centre)[0, edge.parameter]
        ends.append(f"'{post.names[edge.parameter]}' {'above' if edge.side > 0 else 'below'} {value:.3g}")
    if not high:
        words = (
            "The posterior has tails on all sides: where trust in the surrogate ends, its density is at most "
            f"{worst:.0%} of its peak."
        )
        return judged("cut off", worst, limit, words)
    words = (
        f"The evaluations end before the posterior does: {join_words(ends)}. Its density is {worst:.0%} of its peak "
        "there. What is beyond is not in the posterior, whose standard deviations may be too small."
    )
    return judged("cut off", worst, limit, words, "Evaluate what post.suggest(20) says, or start more runs there.")


def _evidence_parts(post: Posterior, limits: Thresholds) -> Iterator[Finding]:
    """What the refinement measured as parts of the error of the evidence."""
    evidence, tried = post.evidence_parts, None if post.history is None else post.history.refinement
    if evidence is None or tried is None:
        return
    share = -np.expm1(-evidence.sides)
    words = f"{share:.1%} of the probability lies beyond the outermost evaluations, where it is uncertain."
    yield judged("beyond", evidence.sides, limits.limit("beyond"), words, MORE)
    guessed = max(float(-np.expm1(-evidence.guessed)), tried.share_outside)
    words = f"{guessed:.1%} of the probability lies where the surrogate guesses or is not trusted."
    yield judged("support", guessed, limits.limit("support"), words, MORE)
    more = float(np.expm1(evidence.untrusted))
    much = f"{more:.1%}" if more < 10 else f"{more:.2g} times"
    words = f"Outside the region where the surrogate is trusted, it predicts {much} as much mass as inside."
    yield judged("around", more, limits.limit("around"), words, MORE)


def _unsure(view: View, limit: Limit) -> Finding:
    share = view.unsure_share()
    words = f"{share:.0%} of the probability lies where the log density is known to no better than {UNSURE:g} nats."
    return judged("unsure", share, limit, words, MORE)


def _surrogate(post: Posterior, view: View, limit: Limit) -> Finding:
    errors = () if post.history is None else post.history.surrogate.held_out
    if not errors and view.model.tested >= TESTED:
        words = "The surrogate was tested on held-out evaluations; with what result was not recorded."
        return Finding("surrogate", "trusted", None, limit.doubtful, words)
    if not errors:
        words = "There were too few evaluations under the posterior to hold some out: the surrogate is untested."
        return judged("surrogate", None, limit, words, MORE)
    typical = float(np.sqrt(np.mean(np.square(errors))))
    words = (
        f"Held-out blocks of evaluations are missed by {typical:.2g} times the standard deviation that the surrogate "
        f"states (the worst of {len(errors)} by {max(errors):.2g} times)."
    )
    remedy = "Look for values that jump, for noise that was not stated, or for a model with steps; see vsbq.audit."
    return judged("surrogate", typical, limit, words, remedy)


def _held_out(view: View, limit: Limit) -> Finding:
    distance = held_out_distance(view)
    if distance is None and view.model.tested >= TESTED:
        words = "What single blocks of evaluations decide was not recorded."
        return Finding("held out", "trusted", None, limit.doubtful, words)
    if distance is None:
        return judged(
            "held out", None, limit, "No block of evaluations could be left out to see what it decides.", MORE
        )
    words = f"Without one block of its evaluations the posterior would move by {distance:.0%} of its mass."
    return judged("held out", distance, limit, words, MORE)


def _sisters(view: View, limit: Limit) -> Finding:
    distance = sister_distance(view)
    if distance is None:
        words = "There is one surrogate only, so that none could disagree with it."
        return Finding("sisters", "trusted", None, limit.doubtful, words)
    words = f"Surrogates learnt from different parts of the evaluations differ by {distance:.0%} of the mass."
    return judged("sisters", distance, limit, words, MORE)


def _mixture(post: Posterior, limits: Thresholds) -> Iterator[Finding]:
    tried = None if post.history is None else post.history.refinement
    if tried is None or tried.method == "none":
        return
    words = (
        f"Weighted by the surrogate, the draws of the mixture are worth {tried.effective_share:.1%} of their number "
        f"(Pareto shape {tried.pareto_shape:.2f})."
    )
    remedy = "Compare fits with other seeds: post.diagnose(refits=3)."
    yield judged("mixture", tried.effective_share, limits.limit("mixture"), words, remedy)
    gap = abs(post.log_evidence - post.elbo)
    words = f"The ELBO and the log evidence differ by {gap:.2g} nats."
    yield judged("bound", gap, limits.limit("bound"), words, remedy)


def _evidence(post: Posterior, limit: Limit) -> Finding:
    sd, parts = post.log_evidence_sd, post.evidence_parts
    words = (
        f"The log evidence may be off by {sd:.2g}" if np.isfinite(sd) else "What the log evidence is off by is unknown"
    )
    return judged("evidence", sd, limit, words + _main_part(parts) + ".", MORE)


def _main_part(parts: Evidence | None) -> str:
    if parts is None:
        return ""
    name, _ = max(zip(Evidence._fields[1:], parts[1:], strict=True), key=lambda part: part[1])
    return f", most of it {ERRORS[name]}"


def _ignored(view: View, rows: Rows, limit: Limit) -> Finding:
    missed, numbers = ignored(view, rows)
    if limit.level(missed) == "trusted":
        return judged("ignored", missed, limit, f"The surrogate follows the highest evaluations to {missed:.2g} nats.")
    words = (
        f"The surrogate stays up to {missed:.3g} nats below {count_in_words(len(numbers), 'high evaluation')} "
        f"{rows_in_words(numbers.tolist())}: the posterior ignores them."
    )
    remedy = "Evaluate these rows again. If the values are right, add evaluations around them; if not, leave them out."
    return judged("ignored", missed, limit, words, remedy)


def _modes(post: Posterior, view: View, rows: Rows, limit: Limit) -> Finding:
    found, needed = mode_counts(post, view, rows), _coefficients(post.dimension)
    if len(found) < 2:
        return Finding("modes", "trusted", 0.0, limit.doubtful, "The posterior is one region.")
    poorest = needed / max(min(mode.evaluations for mode in found), 1)
    told = join_words([f"{mode.share:.0%} with {mode.evaluations}" for mode in found])
    words = f"The posterior has {len(found)} separate regions, by mass and distinct evaluations: {told}."
    return judged("modes", poorest, limit, words, "Start runs of the optimiser in the region with few evaluations.")


def _coefficients(dimension: int) -> int:
    """Of a quadratic: what it takes to describe a normal."""
    return 1 + dimension + dimension * (dimension + 1) // 2


def _too_few(view: View, rows: Rows, limit: Limit) -> Finding:
    count, needed = distinct(view.model, view.draws, rows), _coefficients(view.draws.shape[1])
    words = (
        f"Under the posterior there are {count_in_words(count, 'distinct evaluation')}, and {needed} are needed to "
        "describe a normal distribution"
    )
    few = limit.level(needed / max(count, 1)) != "trusted"
    words += ": too few to contradict a wrong fit." if few else "."
    return judged("too few", needed / max(count, 1), limit, words, MORE)


def _noise(post: Posterior, limit: Limit) -> Iterator[Finding]:
    found = None if post.history is None else post.history.noise
    if found is not None and found.kind == "rescaled":
        factor = max(found.factor, 1.0 / max(found.factor, 1e-9))
        yield judged("noise", factor, limit, found.words, "Correct log_density_sd, and fit again.")


def _input(post: Posterior, limit: Limit) -> Finding:
    assert post.evaluations is not None
    found = [each for each in audit(post.evaluations).warnings if each.topic in BEYOND_REPAIR]
    words = " ".join(str(each.message) for each in found) or "Nothing in the evaluations speaks against a fit."
    return judged("input", float(len(found)), limit, words)
