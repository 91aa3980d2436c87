"""What launchers and log collectors put in front of each line that a process writes.

Written against the tags of Open MPI 4 and 5 (`--tag-output`, `--timestamp-output`), torchrun, srun
`--label`, hydra `-l`, kubectl `logs --prefix` and docker compose. A tag of few characters (`3:`)
could also begin a text, so only the form of a message's first line is taken from those behind it.

>>> form = form_of("[1,3]<stdout>:gpu2:4711:4720 [3] NCCL WARN Call failed with")
>>> untagged("[1,3]<stdout>:error 110", form), untagged("3: error 110", form)
('error 110', '3: error 110')
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TIME = r"\[?[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\]?"
_FORMS: Mapping[str, str] = {
    "open-mpi": rf"\s*(?:{_TIME})?(?:\[[^\]]{{1,80}}\]){{0,2}}<std\w+(?: rank=\"\d+\")?>:? ?",
    "torchrun": r"\s*\[(?:rank|default)\d+\]: ?",
    "srun": r"\s*\d{1,6}: ?",
    "hydra": r"\[\d{1,6}\] ",
    "kubectl": r"\[pod/[\w./-]{1,250}\] ?",
    "compose": r"[A-Za-z][\w.-]{0,100} *\| ?",
}
"""Form → what a line begins with."""
_UNMISTAKABLE = ("open-mpi", "torchrun", "kubectl")
"""Forms that no text begins with: they are taken from every line."""
_UNMISTAKABLE_TAG = re.compile("|".join(_FORMS[form] for form in _UNMISTAKABLE))
_TIME_IN_TAG = re.compile(_TIME)
_TEXT = {form: re.compile(begin) for form, begin in _FORMS.items()}
_BYTES = {form: re.compile(begin.encode()) for form, begin in _FORMS.items()}


def form_of(line: str) -> str | None:
    """The form of the line's tag; None = it has none."""
    return next((form for form, begin in _TEXT.items() if begin.match(line)), None)


def form_of_bytes(line: bytes) -> str | None:
    """As `form_of`, of a line that is not decoded."""
    return next((form for form, begin in _BYTES.items() if begin.match(line)), None)


def untagged(line: str, form: str | None) -> str:
    """The line without a tag of that form, or an unmistakable one."""
    for each in _taken(form):
        match = _TEXT[each].match(line)
        if match is not None:
            return line[match.end() :]
    return line


def untagged_bytes(line: bytes, form: str | None) -> bytes:
    """As `untagged`, of a line that is not decoded."""
    for each in _taken(form):
        match = _BYTES[each].match(line)
        if match is not None:
            return line[match.end() :]
    return line


def _taken(form: str | None) -> tuple[str, ...]:
    return _UNMISTAKABLE if form is None else (form, *_UNMISTAKABLE)


def by_writer(text: str) -> str:
    """The text without unmistakable tags, the lines of each writer together, in the order of the
    writers' first lines; a text whose first line has no such tag as it is.

    >>> by_writer("[rank0]: a\\n[rank1]: x\\n[rank0]: b\\n")
    'a\\nb\\nx\\n'
    """
    if _UNMISTAKABLE_TAG.match(text) is None:
        return text
    writers: dict[str, list[str]] = {}
    for line in text.splitlines(keepends=True):
        match = _UNMISTAKABLE_TAG.match(line)
        tag = "" if match is None else _TIME_IN_TAG.sub("", match[0]).strip()
        writers.setdefault(tag, []).append(line[match.end() :] if match else line)
    return "".join(line for lines in writers.values() for line in lines)
