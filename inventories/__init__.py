"""Example inventories, one per way of naming a cluster."""
