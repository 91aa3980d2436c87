"""What the numbers mean: limits, comparison, spread, blame, verdict."""
