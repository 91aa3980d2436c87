"""Records in, HTML, Markdown, JUnit, Prometheus, CSV and terminal text out: pure functions, no I/O.

Every writer takes a `ReportInput` (or its `RunResult`) and returns text; the caller writes files.
Text that came from a node passes through `safe` on its way into each of them.
"""

from busbw.reports.input import Excerpt, ReportInput

__all__ = ["Excerpt", "ReportInput"]
