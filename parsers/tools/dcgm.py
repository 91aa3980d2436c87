"""What `dcgmi diag -r N` prints (DCGM 3): a table with one row per test, its warnings wrapped in
the middle of words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from busbw.parsers.logs.json_values import items, mapping, text_of, values
from busbw.parsers.tools import Tool, ToolFact
from busbw.text import whole_number

# What `dcgmi diag -r N -j` prints: per test and GPU a status and its warnings (DCGM 2.4 to 4.2; since
# 4.0 each test has a summary, which alone has what is of no GPU); `dcgmi mndiag -j` of several hosts
# (DCGM 4.4: dcgmi/MnDiag.cpp).

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")


@dataclass(frozen=True, slots=True)
class DiagResult:
    """One test on one GPU, or on the node as a whole."""

    test: str
    gpu: int | None
    """None = the node as a whole, or another entity than a GPU."""
    status: str
    """`Pass`, `Fail`, `Warn`, `Skip`, as in the table that people get."""
    warning: str
    """All its warnings and errors, joined by `; `; "" = none."""
    host: str = ""
    """Of several hosts, which; "" = the one it ran on."""


@dataclass(frozen=True, slots=True)
class Diag:
    """One run."""

    version: str | None
    results: tuple[DiagResult, ...]
    problem: str
    """Why it did not run; "" = it ran."""


def parse(text: str) -> Diag | None:
    """What the text says; None = it is not of `dcgmi diag -j`.

    >>> parse('{"DCGM GPU Diagnostic": {"version": "3.3.5", "test_categories": [{"category": "Deployment", "tests": ['
    ...       '{"name": "Denylist", "results": [{"status": "Pass"}]}]}]}}').results
    (DiagResult(test='Denylist', gpu=None, status='Pass', warning='', host=''),)
    """
    return next(iter(parse_all(text)), None)


def parse_all(text: str) -> tuple[Diag, ...]:
    """Every run in a text, also documents one after another."""
    if not any(f'"{root}"' in text for root in _ROOTS):
        return ()
    runs = []
    for value in values(text):
        document = mapping(value.tree)
        if isinstance(document.get(_ROOTS[0]), str):  # of several hosts: the name stands beside
            runs.append(_diag(document, _hosts(document)))
        elif body := next(filter(None, (mapping(document.get(root)) for root in _ROOTS)), None):
            runs.append(_diag({"metadata": document.get("metadata"), **body}))
        elif value.tree is None and any(root in text[value.begin : value.end] for root in _ROOTS):
            runs.append(Diag(None, (), "incomplete JSON: the document has no end"))
    return tuple(runs)


def _hosts(document: dict[str, object]) -> dict[str, str]:
    """The name of each host by its number."""
    hosts = [mapping(each) for each in items(document, "hosts")]
    return {text_of(each, "host_id") or "": text_of(each, "hostname") or "" for each in hosts}


def _diag(body: dict[str, object], hosts: Mapping[str, str] = MappingProxyType({})) -> Diag:
    tests: list[DiagResult] = []
    for category in items(body, "test_categories"):
        for each in items(mapping(category), "tests"):
            test = mapping(each)
            name = text_of(test, "name") or ""
            own = [_result(name, mapping(result), hosts) for result in items(test, "results")]
            summary = _result(name, mapping(test.get("test_summary")), {})
            mpi = _texts([test.get("mpi_error")])
            if summary.status and summary.status not in {result.status for result in own}:
                warning = "; ".join(filter(None, (summary.warning, *mpi)))
                own.append(replace(summary, warning=warning))
            tests += own
    problem = text_of(body, "runtime_error") or ("" if tests else "it ran no test")
    return Diag(
        text_of(body, "version") or text_of(mapping(body.get("metadata")), "version"),
        tuple(tests),
        problem,
    )


def _result(test: str, result: dict[str, object], hosts: Mapping[str, str]) -> DiagResult:
    entity = text_of(result, "gpu_id") or text_of(result, "gpu_ids")
    if entity is None and (text_of(result, "entity_group") or "").upper() == "GPU":
        entity = text_of(result, "entity_id")
    warnings = [*_texts(result.get("warnings")), *_texts(result.get("errors"))]
    gpu = whole_number(entity)
    host = hosts.get(text_of(result, "host_id") or "", "")
    status = (text_of(result, "status") or "").capitalize()
    return DiagResult(test, gpu, status, "; ".join(warnings), host)


def _texts(value: object) -> list[str]:
    """A text, or a list of texts or of objects with one under `warning` or `error`."""
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    texts = []
    for each in value if isinstance(value, list) else []:
        inner = mapping(each)
        text = text_of(inner, "warning") or text_of(inner, "error") if inner else each
        if isinstance(text, str) and text.strip():
            texts.append(text.strip())
    return texts


_ROW = re.compile(r"^\|\s?(.{25,27}?)\s*\|\s(.*?)\s?\|\s*$")
_RESULT = re.compile(r"^(Pass|Fail|Skip|Warn)\b")


@dataclass(frozen=True, slots=True)
class DiagTest:
    """One test of the table."""

    name: str
    result: str
    """`Pass`, `Fail`, `Skip` or `Warn`."""
    warning: str
    """All its warning text with the wrapping undone as far as it can be; empty = none."""


def parse_diag(text: str) -> tuple[DiagTest, ...]:
    """The tests listed; () = the text is not of `dcgmi diag`.

    >>> parse_diag('''| GPU Memory                | Fail - GPU: 0                                  |
    ... | Warning                   | GPU 0 Error using CUDA API cuInit              |
    ... ''')
    (DiagTest(name='GPU Memory', result='Fail', warning='GPU 0 Error using CUDA API cuInit'),)
    """
    tests: list[DiagTest] = []
    lines = [match for line in text.splitlines() if (match := _ROW.match(line))]
    for match in lines:
        label, value = match[1].strip(), match[2]
        if not label and tests and value.startswith("Fail - GPU"):
            # A test that passed on other GPUs.
            last = tests[-1]
            tests[-1] = DiagTest(last.name, "Fail", value.rstrip())
        elif label and (result := _RESULT.match(value)):
            tests.append(DiagTest(label, result[1], ""))
        elif tests and label in ("", "Warning", "Error"):
            # Cells are 46 wide and cut inside words: a full cell goes on in the next without a
            # blank.
            last = tests[-1]
            parting = "; " if label and last.warning else ""
            tests[-1] = DiagTest(last.name, last.result, last.warning + parting + value.rstrip())
    return tuple(tests)


def _line(test: DiagTest) -> str:
    return f"{test.name}: {test.result}" + (f" ({test.warning})" if test.warning else "")


def _errors(test: DiagTest) -> tuple[str, ...]:
    return (f"dcgmi diag: {test.name}: {test.result}",) if test.result == "Fail" else ()


def _json_line(result: DiagResult) -> str:
    place = f" {result.host}" if result.host else ""
    place += "" if result.gpu is None else f" GPU {result.gpu}"
    return f"{result.test}{place}: {result.status}" + (
        f" ({result.warning})" if result.warning else ""
    )


def _json_errors(diag: Diag) -> Iterator[str]:
    if diag.problem:
        yield f"dcgmi diag -j: {diag.problem}"
    for result in diag.results:
        if result.status == "Fail":
            yield f"dcgmi diag -j: {_json_line(result)}"


def _failed(names: Iterable[str]) -> Iterator[ToolFact]:
    for name in dict.fromkeys(names):
        yield ToolFact("dcgm.diag", (("status", "fail"),), name)


def _facts(tests: tuple[DiagTest, ...]) -> Iterable[ToolFact]:
    return _failed(test.name for test in tests if test.result == "Fail")


def _json_facts(runs: tuple[Diag, ...]) -> Iterable[ToolFact]:
    results = (result for run in runs for result in run.results)
    return _failed(result.test for result in results if result.status == "Fail")


TOOL = (
    Tool(
        name="dcgmi diag",
        marks=("DCGM", "dcgmi", "| Pass", "| Fail"),
        parse=parse_diag,
        lines=lambda test: (_line(test),),
        facts=_facts,
        errors=_errors,
    ),
    Tool(
        name="dcgmi diag -j",
        marks=tuple(f'"{root}"' for root in _ROOTS),
        parse=parse_all,
        lines=lambda diag: map(_json_line, diag.results),
        facts=_json_facts,
        errors=_json_errors,
    ),
)
