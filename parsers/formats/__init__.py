"""One module per text format: bytes or lines in, records out."""
