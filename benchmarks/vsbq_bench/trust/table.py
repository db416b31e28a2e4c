"""What the verdict says of fits whose truth is known: the confusion by kind of sabotage, and every missed case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vsbq_bench.trust.judge import UNSEEN, judge
from vsbq_bench.trust.sabotage import SABOTAGES

__all__ = ["LEVELS", "confusion", "missed", "refresh_trust"]

LEVELS = ("trusted", "doubtful", "rejected", "refused")
BEGIN, END = "<!-- begin: trust -->", "<!-- end: trust -->"

Line = Mapping[str, Any]


def confusion(lines: Sequence[Line]) -> str:
    """A table: for each kind of sabotage, verdicts on usable and on unusable fits, and on what nobody has seen."""
    head = ["sabotage", *(f"usable: {level}" for level in LEVELS[:3]), *(f"not usable: {level}" for level in LEVELS)]
    rows = [_row(kind, [line for line in lines if line["sabotage"] == kind]) for kind in SABOTAGES]
    rows = [row for row in rows if any(cell != "0" for cell in row[1:])] + [_row("**all**", lines)]
    return "\n".join(["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]])


def _row(name: str, lines: Sequence[Line]) -> list[str]:
    usable = [line for line in lines if line.get("usable")]
    others = [line for line in lines if not line.get("usable")]
    counts = [sum(line["verdict"] == level for line in usable) for level in LEVELS[:3]]
    counts += [sum(line["verdict"] == level for line in others) for level in LEVELS]
    return [name, *map(str, counts)]


def summary(lines: Sequence[Line]) -> str:
    """The shares that count."""
    usable = [line for line in lines if line.get("usable")]
    others = [line for line in lines if not line.get("usable")]
    told = sum(line["verdict"] != "trusted" for line in others)
    parts = [f"{len(lines)} fits, {len(usable)} of them usable."]
    if others:
        parts.append(f"Of those that are not, {told} ({told / len(others):.0%}) are doubtful, rejected or refused.")
    for level in ("doubtful", "rejected"):
        count = sum(line["verdict"] == level for line in usable)
        parts.append(f"Of the usable ones {count} ({count / max(len(usable), 1):.0%}) are {level}.")
    shares = sorted(line["diagnosis_share"] for line in lines if "diagnosis_share" in line)
    if shares:
        parts.append(
            f"The diagnosis took {shares[len(shares) // 2]:.1%} of the fit (median), {shares[-1]:.1%} at most."
        )
    return " ".join(parts)


def missed(lines: Sequence[Line]) -> str:
    """Every unusable fit that was trusted, with its errors and whether anyone could have known."""
    rows = []
    for line in lines:
        if line.get("usable") is False and line["verdict"] == "trusted":
            scores = [f"{line[name]:.2g}" if line[name] is not None else "∞" for name in ("delta_lml", "mmtv", "gskl")]
            why = "part of it was never evaluated" if line["unseen"] > UNSEEN else _which(line)
            rows.append([line["trial"], *scores, why])
    head = ["trial", "ΔLML", "MMTV", "GsKL", "why"]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * 5, *rows]) if rows else "None."


def _which(line: Line) -> str:
    limits = {"delta_lml": 1.0, "mmtv": 0.2, "gskl": 0.125}
    over = [name for name, limit in limits.items() if line[name] is None or line[name] >= limit]
    words = {"delta_lml": "ΔLML", "mmtv": "MMTV", "gskl": "GsKL"}
    return f"beyond the limit in {', '.join(words[name] for name in over)}"


def refresh_trust(page: Path, lines: Sequence[Line]) -> None:
    """Put the tables of both halves between the markers of a page, with the verdicts of the present thresholds."""
    parts = []
    for half in ("development", "validation"):
        own = [judge(line) for line in lines if line["half"] == half]
        if own:
            parts += [f"## The {half} half", summary(own), confusion(own), "Missed:", missed(own)]
    text = page.read_text(encoding="utf-8")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    page.write_text(text[:start] + "\n\n" + "\n\n".join(parts) + "\n\n" + text[end:], encoding="utf-8")
