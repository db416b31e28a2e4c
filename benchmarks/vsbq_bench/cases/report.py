"""A comparison of results of the cases for people, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from vsbq_bench.cases.compare import ALL, MEASURES, Change, Comparison
from vsbq_bench.published import NOTHING

__all__ = ["comparison_in_words"]

SHOWN = 40  # single cases


def comparison_in_words(found: Comparison) -> str:
    """Return the tables of a comparison as plain text."""
    parts = [f"{found.paired} cases in both; changes are new minus old, lower is better.", _noise_in_words(found)]
    parts.append(_kinds(found.by_kind))
    parts.append(_cases(found.by_case))
    names = (
        ("fail now", found.new_failures),
        ("no longer fail", found.mended),
        ("only in the old results", found.only_old),
        ("only in the new results", found.only_new),
    )
    parts += [f"{len(cases)} {word}:\n  " + "\n  ".join(cases) for word, cases in names if cases]
    return "\n\n".join(parts)


def _noise_in_words(found: Comparison) -> str:
    known = [f"{name} {noise.sd:.2g}" for name, noise in found.noise.items() if noise.freedom]
    if not known:
        return "No case has several seeds, so that the noise is unknown and no change counts."
    freedom = min(noise.freedom for noise in found.noise.values() if noise.freedom)
    return f"Standard deviation between seeds: {', '.join(known)} ({freedom} degrees of freedom or more)."


def _kinds(changes: Sequence[Change]) -> str:
    table = {(change.of, change.measure): change for change in changes}
    names = [measure.name for measure in MEASURES]
    rows = [f"{'kind':<16}{'cases':>6}" + "".join(f"{name:>32}" for name in names)]
    for kind in sorted({change.of for change in changes}, key=lambda kind: (kind != ALL, kind)):
        own = [table.get((kind, name)) for name in names]
        most = max(change.cases for change in own if change is not None)
        rows.append(f"{kind:<16}{most:>6}" + "".join(f"{_in_words(change):>32}" for change in own))
    return "\n".join(rows)


def _in_words(change: Change | None) -> str:
    if change is None or change.cases == 0:
        return NOTHING
    return f"{change.new - change.old:+.2f} ± {change.error:.2f} {change.verdict:<6}"


def _cases(changes: Sequence[Change]) -> str:
    if not changes:
        return "No single case changed beyond its noise."
    ends = changes if len(changes) <= SHOWN else [*changes[: SHOWN // 2], *changes[-SHOWN // 2 :]]
    rows = [f"  {c.verdict:<7}{c.measure:<16}{c.old:>8.2f} -> {c.new:<8.2f}{c.of}" for c in ends]
    left = f"\n  and {len(changes) - len(ends)} more" if len(ends) < len(changes) else ""
    return f"{len(changes)} changes of single cases beyond their noise:\n" + "\n".join(rows) + left
