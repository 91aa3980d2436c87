"""The stages of a run: each does its I/O and leaves its artefacts in the run directory; judging is
done from those alone."""
