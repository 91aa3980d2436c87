"""Run plans as YAML: what to check, what to measure, what must hold."""
