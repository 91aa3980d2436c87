"""Which names and values a variable of a launch may have, wherever it was written."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY", re.I)


def fault(name: str, value: str) -> str | None:
    """What is wrong with a variable; None = nothing.

    >>> fault("NCCL_IB_PKEY", "0"), fault("HF_TOKEN", "x")
    (None, "'HF_TOKEN' looks like a secret, and every variable is written into the report")
    """
    if not _NAME.match(name):
        return f"{name!r} is not the name of a variable"
    if _SECRET.search(name):
        return f"{name!r} looks like a secret, and every variable is written into the report"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        return f"the value of {name} holds a control character"
    return None
