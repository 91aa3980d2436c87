"""Which groups of nodes to measure next, and how many fit in one launch."""
