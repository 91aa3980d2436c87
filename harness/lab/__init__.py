"""The embedded cluster: nodes, faults, and the host-memory benchmark."""
