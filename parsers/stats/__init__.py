"""Spread, spikes and regression: statistics of measured times and bandwidths."""
