"""Reaching real sshd processes over paramiko and over the OpenSSH program: the same promises for
both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from busbw.transport import Transport

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.lab
BOTH = pytest.mark.parametrize("kind", ["ssh", "openssh"])


@pytest.fixture
def transports() -> Iterator[list[Transport]]:
    opened: list[Transport] = []
    yield opened
    for transport in opened:
        transport.close()
