"""Ways of reaching a node: one protocol, one file per way."""
