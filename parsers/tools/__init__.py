"""One module per tool of a node: its output in, typed facts out."""
