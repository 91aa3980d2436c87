"""Records in, HTML, Markdown, JUnit, Prometheus, CSV and terminal text out: pure functions, no I/O.

Every writer takes a `ReportInput` (or its `RunResult`) and returns text; the caller writes files.
Text that came from a node passes through `safe` on its way into each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from busbw import late_import

if TYPE_CHECKING:
    from busbw.reports.input import Excerpt, ReportInput

__all__ = ["Excerpt", "ReportInput"]

if not TYPE_CHECKING:
    # Most commands need some words of `phrases`, and no report.
    __getattr__ = late_import.by_module(__name__, {"input": ("Excerpt", "ReportInput")})
