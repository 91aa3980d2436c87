"""What a pattern cannot say: rules over all evidence of a run."""
