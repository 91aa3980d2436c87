"""What every trap begins with: the healthy run."""

from __future__ import annotations

import pytest
from planted import Recording, healthy

_HEALTHY: list[Recording] = []


@pytest.fixture
def run() -> Recording:
    """A copy of the healthy run to plant a fault in; it is composed once."""
    if not _HEALTHY:
        _HEALTHY.append(healthy())
    return Recording(dict(_HEALTHY[0].files))
