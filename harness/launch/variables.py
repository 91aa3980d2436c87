"""Which names and values a variable of a launch may have, wherever it was written."""

from __future__ import annotations

import re

from busbw.credentials import masked, secret_name

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def script_fault(path: str) -> str | None:
    """What is wrong with the path of a setup script; None = nothing.

    >>> script_fault("/opt/site/nccl-env.sh"), script_fault("nccl-env.sh")
    (None, "'nccl-env.sh' is not the absolute path of a script on the nodes")
    """
    if path.startswith("/") and path.isprintable():
        return None
    return f"{path!r} is not the absolute path of a script on the nodes"


def fault(name: str, value: str) -> str | None:
    """What is wrong with a variable; None = nothing. The value is never repeated: it may be a
    secret.

    >>> fault("NCCL_IB_PKEY", "0"), fault("HF_TOKEN", "x")
    (None, "'HF_TOKEN' looks like a secret, and every variable is written into the report")
    """
    if not _NAME.match(name):
        return f"{masked(name)!r} is not the name of a variable"
    if secret_name(name):
        return f"{name!r} looks like a secret, and every variable is written into the report"
    if masked(value) != value:
        return f"the value of {name} looks like a secret, and every variable is written into the report"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        return f"the value of {name} holds a control character"
    return None
