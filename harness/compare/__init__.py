"""Launches and runs compared: interleaved A/B, parameter sweeps, soaks, accepted runs, history."""
