"""From a run directory to its result: reads `raw/`, judges, and gives one record. The same `raw/` always gives the same record."""

from busbw.derive.result import answers, checked, demand, derive, load_plan

__all__ = ["answers", "checked", "demand", "derive", "load_plan"]
