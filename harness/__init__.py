"""busbw measures the collective bandwidth of a GPU cluster and names what to blame when it is not
what it should be."""

__version__ = "0.1.0"
