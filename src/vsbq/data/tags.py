"""Tags: which model and data evaluations are of, in the user's words."""

from __future__ import annotations

from typing import Any

from vsbq.errors import EvaluationsError

__all__ = ["read_tag"]


def read_tag(tag: Any) -> str | None:
    """The user's word for model and data; an empty one is none."""
    if not isinstance(tag, str | None):
        raise EvaluationsError(f"tag must be a string, but is {tag!r:.80}. Pass str(tag).")
    try:
        return (tag or "").encode().decode() or None
    except UnicodeError:
        raise EvaluationsError(f"tag is {tag!r:.80}, which is no text in Unicode. Pass another string.") from None
