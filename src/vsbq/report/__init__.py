"""What a person sees: figures, and a page that tells the whole story of a fit."""

from vsbq.report.page import write_report

__all__ = ["write_report"]
