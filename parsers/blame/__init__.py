"""Which node, rail, route or uplink makes groups slow."""
