"""From doubtful to trusted: suggest, evaluate, update, until the verdict is good or the calls are used up."""

from vsbq.improve.loop import improve

__all__ = ["improve"]
