"""What to gather from a live stalled job, read-only, and in what order."""
