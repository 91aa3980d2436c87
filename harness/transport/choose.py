"""Transports by name: every file of this package with a `TRANSPORT` is one."""

from __future__ import annotations

from typing import Protocol, cast

from busbw import plugins, transport
from busbw.errors import UsageError
from busbw.transport import Transport


class Factory(Protocol):
    """What `TRANSPORT` holds."""

    def __call__(self, *, ssh_config: str | None, accept_new_host_keys: bool) -> Transport:
        """A transport; `ssh_config` = a file to use instead of the user's own (`ssh -F`)."""


def make(
    name: str, *, ssh_config: str | None = None, accept_new_host_keys: bool = False
) -> Transport:
    """The transport of that name. Imports paramiko, so it is called where nodes are about to be
    reached.

    Raises:
        UsageError: there is none of that name.
    """
    known = cast("dict[str, Factory]", plugins.discover(transport, "TRANSPORT"))
    if name not in known:
        raise UsageError(
            f"transport {name!r} is not known",
            seen=f"--transport {name}",
            next_step=f"use one of: {', '.join(known)}",
        )
    return known[name](ssh_config=ssh_config, accept_new_host_keys=accept_new_host_keys)
