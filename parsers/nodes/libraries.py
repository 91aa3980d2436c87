"""What `ldconfig -p` lists: shared libraries known to the linker, one `name (kind) => path` per line."""

from __future__ import annotations

import re

_LINE = re.compile(r"^\s+(\S+) \([^)]*\) => (\S+)$", re.M)
_HEAD = re.compile(r"^\d+ libs found in ", re.M)


def parse(text: str) -> tuple[str, ...] | None:
    """Names of the libraries, each once, sorted; None = the text is not of `ldconfig -p`.

    >>> parse("812 libs found in cache `/etc/ld.so.cache'\\n\\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2\\n")
    ('libnccl.so.2',)
    >>> parse("ldconfig: Can't open cache file") is None
    True
    """
    names = tuple(sorted({name for name, _ in _LINE.findall(text)}))
    return names if names or _HEAD.search(text) else None


def majors(names: tuple[str, ...], stem: str) -> tuple[int, ...]:
    """The major versions of one library, each once, ascending.

    >>> majors(("libcudart.so.11.0", "libcudart.so.12", "libm.so.6"), "libcudart")
    (11, 12)
    """
    found = {int(match[1]) for name in names if (match := re.match(rf"{re.escape(stem)}\.so\.(\d+)", name))}
    return tuple(sorted(found))
