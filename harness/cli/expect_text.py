"""What `busbw expect` answers, and how it is printed: the limit first, then what tuned systems reach,
then who published what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.units import counted, format_bandwidth, format_size, format_time_us

if TYPE_CHECKING:
    from busbw.model import Comparison, Limit, Reference
    from busbw.parsers.expect.baselines import Matches
    from busbw.parsers.expect.cluster import Bound, Expectation, Question
    from busbw.parsers.expect.figures import Curve, NicFigure, Row, RuleOfThumb, Source
    from busbw.parsers.expect.hardware import Nics
    from busbw.parsers.expect.judge import RdmaSum


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is printed, and with --json written."""

    expectation: Expectation
    reference: Reference
    """The published one; its number is None where no row is of the regime."""
    matches: Matches
    curves: tuple[Curve, ...]
    nic_figures: tuple[NicFigure, ...]
    comparison: Comparison | None
    """None = no --measured."""
    contract_gb_s: float | None
    """None = no --contract."""
    contract_notes: tuple[str, ...]
    """What meeting it would prove, and what not."""
    rules: tuple[RuleOfThumb, ...] = ()
    """By which others judge."""
    rdma: RdmaSum | None = None
    """None = no --rdma."""
    described: str = ""
    """Which run or node described the hardware; empty = the options did."""
    tables: tuple[str, ...] = ()
    """Which tables of figures were looked in, each with its age."""


_SIZES = tuple(1 << power for power in (20, 24, 26, 28, 30, 32, 34))


def answer_lines(answer: Answer) -> str:
    """All blocks of the answer."""
    expectation = answer.expectation
    blocks = [
        _title_block(answer),
        _comparison(answer),
        [f"contract: {note}" for note in answer.contract_notes],
        [f"rdma: {line}" for line in answer.rdma.lines] if answer.rdma is not None else [],
        _headline(expectation),
        _block("bounds by specification", [_bound(bound) for bound in expectation.bounds]),
        _model(expectation),
        _published(answer),
        _thresholds(answer),
        _block(
            "quoted by articles, without a run's output: never judged by",
            [_row(row, "") for row in answer.matches.articles],
        ),
        _curves(answer.curves, expectation.question),
        _block("one NIC by perftest", [_nic(figure) for figure in answer.nic_figures]),
        _latency(expectation),
        _rules(answer),
        [f"table: {line}" for line in answer.tables],
        [f"note: {note}" for note in expectation.notes],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _block(title: str, lines: list[str]) -> list[str]:
    """Lines under their title; without lines there is no title."""
    return [title, *lines] if lines else []


def _title_block(answer: Answer) -> list[str]:
    lines = [_title(answer.expectation.question)]
    if answer.described:
        lines.append(f"described by {answer.described}")
    return lines


def _title(question: Question) -> str:
    if question.gpu is not None:
        gpu, usual = question.gpu.name, question.gpu.gpus_per_node
    else:
        gpu = f"GPU with {question.nvlink_gb_s:g} GB/s of NVLink"
        usual = question.gpus_per_node
    unit = "node" if question.gpus_per_node <= usual else "NVLink domain"
    nodes = counted(question.nodes, unit)
    text = f"{question.collective} on {nodes} of {question.gpus_per_node} x {gpu}"
    if question.nodes == 1:
        return text
    if question.network_gb_s is not None:
        return f"{text}, {question.network_gb_s:g} GB/s of network per node, {question.fabric}"
    assert question.nics is not None
    nic = f"{question.nics.rate_gbit_s:g} Gb/s"
    if not question.nics.name.isdigit():
        nic = f"{question.nics.name} ({nic})"
    return f"{text}, {question.nics.count} x {nic}, {question.fabric}"


def _comparison(answer: Answer) -> list[str]:
    comparison = answer.comparison
    if comparison is None:
        return []
    measured = format_bandwidth(comparison.measured_gb_s)
    if float(measured.split()[0]) != comparison.measured_gb_s:
        measured = f"{comparison.measured_gb_s:g} GB/s"  # rounded it may seem to meet a bound
    state = comparison.status.value.upper()
    return [
        f"{state}  {measured} at {format_size(comparison.size_bytes)}",
        f"  {comparison.reason}",
    ]


def _number(value_gb_s: float) -> str:
    return f"{value_gb_s:8.1f} GB/s"


def _bound(bound: Bound) -> str:
    return f"  {_number(bound.limit.value_gb_s)}  {bound.name}: {bound.limit.formula}"


def _headline(expectation: Expectation) -> list[str]:
    limit: Limit = expectation.limit
    inputs = ", ".join(f"{name} = {value}" for name, value in limit.inputs)
    lines = [
        f"limit    {_number(limit.value_gb_s)}  nothing exceeds it: {limit.formula}",
        f"         {inputs}",
    ]
    banded = [item for item in expectation.expected if item.low_gb_s is not None]
    for item in banded[:2]:
        lines.append(
            f"expect   {item.low_gb_s:8.0f} to {item.typical_gb_s:.0f} GB/s where {item.name} runs,"
            " for large messages"
        )
    if not banded:
        why = expectation.why_no_estimate or "no band for what runs here"
        lines.append(f"expect   unknown: {why}")
    question = expectation.question
    if question.gpu is not None:
        lines.append(f"source   GPU: {question.gpu.source}")
    if question.nics is not None and question.nics.source and question.nodes > 1:
        lines.append(f"source   NIC: {question.nics.source}")
    return lines


_BASIS = {
    "published": "published runs",
    "model": "the model alone, wide",
    "none": "nothing",
}


def _model(expectation: Expectation) -> list[str]:
    lines = []
    for item in expectation.expected:
        band = "no band"
        if item.low_gb_s is not None:
            basis = _BASIS[item.basis]
            band = f"tuned {item.low_gb_s:.0f} to {item.typical_gb_s:.0f} by {basis} ({item.kind})"
        estimate = _number(item.estimate.value_gb_s)
        lines.append(f"  {estimate}  {item.name:<9} {item.binds} binds, {band}")
    title = "estimate from the rates that NCCL counts with, and payload after headers (not a limit)"
    return _block(title, lines)


def _published(answer: Answer) -> list[str]:
    matches = answer.matches
    lines = ["published: no row of this regime or near it"]
    if matches.exact:
        count = counted(len(matches.exact), "row")
        median = format_bandwidth(matches.median_gb_s)
        lines = [f"published, same regime: {count}, median {median}"]
        lines += [_row(row, "") for row in matches.exact]
    elif matches.nearest:
        count = f"{len(matches.nearest)} nearest"
        lines = [f"published: no row of this regime; {count} (nearest, not the same)"]
        for near in matches.nearest:
            lines.append(_row(near.row, f"differs: {', '.join(near.differences)}; "))
    if matches.other:
        lines.append("  shown, not counted:")
        for row in matches.other:
            algorithm = row.algorithm or "algorithm not stated"
            lines.append(_row(row, f"{row.grade.value}; {algorithm}; "))
    return lines


def _row(row: Row, prefix: str) -> str:
    figure = row.busbw_gb_s
    assert figure is not None
    nodes = f"{counted(row.nodes, 'node')}; " if row.nodes is not None else ""
    source = f"{_source(row.source)}{_after(row.note)}"
    return f"  {_number(figure.value)}{_at_size(row)}  {prefix}{nodes}{source}"


def _at_size(row: Row) -> str:
    return "" if row.size_bytes is None else f" at {format_size(row.size_bytes)}"


def _after(note: str | None) -> str:
    return f"; {note}" if note else ""


def _source(source: Source) -> str:
    return ", ".join(part for part in (source.title, source.address, source.date) if part)


def _thresholds(answer: Answer) -> list[str]:
    from busbw.parsers.expect.baselines import blind

    limit = answer.expectation.limit
    lines = []
    for near in answer.matches.thresholds:
        figure = near.row.busbw_gb_s
        assert figure is not None
        text = f"{figure.value / limit.value_gb_s:.0%} of the limit"
        if blind(figure.value, limit):
            text += ", too low to see a fabric that lost a third"
        text += f"; {_source(near.row.source)}"
        if near.differences:
            text += f"; differs: {', '.join(near.differences)}"
        lines.append(f"  {_number(figure.value)}  {text}")
    for row in answer.matches.refused:
        figure = row.busbw_gb_s
        assert figure is not None
        why = f"refused, no system of this kind gives it{_at_size(row)}"
        lines.append(f"  {_number(figure.value)}  {why}: {_source(row.source)}")
    return _block("floors that clouds and tools ship (to pass, not to expect)", lines)


def _curves(curves: tuple[Curve, ...], question: Question) -> list[str]:
    from busbw.parsers.expect.baselines import share_at
    from busbw.parsers.expect.hardware import find_gpu

    lines = []
    for curve in curves:
        shares = [(size, share_at(curve, size)) for size in _SIZES]
        known = [f"{format_size(size)} {share:.0%}" for size, share in shares if share is not None]
        other = "" if find_gpu(curve.gpu) == question.gpu else ", another GPU"
        lines.append(
            f"  {curve.gpu}, {curve.nodes} x {curve.gpus_per_node} GPUs{other}:"
            f" {' · '.join(known)}; {_source(curve.source)}"
        )
    return _block("by message size, share of the figure for the largest", lines)


def _nic(figure: NicFigure) -> str:
    value = f"at most {figure.latency_max_us} µs"
    if figure.gbit_s is not None:
        value = f"{figure.gbit_s:g} Gb/s"
    kind = "floor" if figure.kind == "acceptance-threshold" else "measured"
    source = f"{_source(figure.source)}{_after(figure.note)}"
    return f"  {value}  {kind}, {figure.test}, {figure.link}; {source}"


def _latency(expectation: Expectation) -> list[str]:
    if not expectation.latency_us:
        return []
    text = ", ".join(f"{name} {format_time_us(value)}" for name, value in expectation.latency_us)
    return [
        f"a few bytes, by NCCL's model: {text}; measured systems lie between 0.85 and 10 times it"
        " (EFA, TCPXO and RCCL highest)"
    ]


def _rules(answer: Answer) -> list[str]:
    question = answer.expectation.question
    nics = question.nics if question.nodes > 1 else None
    return _block("rules by which others judge", [_rule(rule, nics) for rule in answer.rules])


def _rule(rule: RuleOfThumb, nics: Nics | None) -> str:
    here = ""
    each = None if nics is None else dict(rule.gb_s_per_nic).get(nics.rate_gbit_s)
    if nics is not None and each is not None:
        here = f" (here {nics.count} x {each:g} = {nics.count * each:g} GB/s)"
    return f"  {rule.rule}{here}: {rule.used}; {_source(rule.source)}"
