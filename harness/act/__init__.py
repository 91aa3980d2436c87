"""Taking a faulty node out of service, and putting it back: only where a person asked for it."""
