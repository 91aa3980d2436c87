"""The run directory: what is planned and seen, kept so that everything else can be rebuilt from
it."""
