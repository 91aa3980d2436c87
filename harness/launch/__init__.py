"""Launchers: pure builders of complete command lines."""
