"""One page about a fitted model, for people who were not in the room."""

from dst2r.report.page import write_report

__all__ = ["write_report"]
