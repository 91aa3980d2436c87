"""Evidence in, records out, and what the records mean: pure functions, no I/O."""
