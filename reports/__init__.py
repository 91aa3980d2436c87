"""Records in, HTML, Markdown and other text out: pure functions, no I/O."""
