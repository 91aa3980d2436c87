"""Families of checks: what each asks of a node and how the answer is judged."""
