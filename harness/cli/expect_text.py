"""What `busbw expect` prints: the limit first, then what tuned systems reach, then who published what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from busbw.units import format_bandwidth, format_size, format_time_us

if TYPE_CHECKING:
    from busbw.cli.expect import Answer
    from busbw.parsers.judge.baselines_table import Curve, NicFigure, Row, RuleOfThumb, Source
    from busbw.parsers.judge.hardware import Nics
    from busbw.parsers.judge.limits_table import Expectation, Question
    from busbw.records import Limit

_SIZES = tuple(1 << power for power in (20, 24, 26, 28, 30, 32, 34))


def answer(found: Answer) -> str:
    """The whole text."""
    expectation = found.expectation
    question = expectation.question
    blocks = [[_title(question), *([f"described by {found.described}"] if found.described else [])]]
    if found.comparison is not None:
        comparison = found.comparison
        head = f"{comparison.status.value.upper()}  {format_bandwidth(comparison.measured_gb_s)} at {format_size(comparison.size_bytes)}"
        blocks.append([head, f"  {comparison.reason}"])
    blocks.append([f"contract: {note}" for note in found.contract_notes])
    blocks.append([f"rdma: {line}" for line in found.rdma.told] if found.rdma is not None else [])
    blocks.append(_headline(expectation))
    blocks.append(
        ["bounds by specification", *(f"  {_number(b.limit.value_gb_s)}  {b.name}: {b.limit.formula}" for b in expectation.bounds)]
    )
    blocks.append(_model(expectation))
    blocks.append(_published(found))
    blocks.append(_thresholds(found))
    blocks.append(_articles(found))
    blocks.append(_curves(found.curves, question))
    blocks.append(_nics(found.nic_figures))
    blocks.append(_latency(expectation))
    blocks.append(_rules(found))
    blocks.append([*(f"note: {note}" for note in expectation.notes)])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _title(question: Question) -> str:
    gpu = question.gpu.name if question.gpu is not None else f"GPU with {question.nvlink_gb_s:g} GB/s of NVLink"
    text = f"{question.collective} on {question.nodes} node{'s' if question.nodes > 1 else ''} of {question.gpus_per_node} x {gpu}"
    if question.nodes == 1:
        return text
    if question.network_gb_s is not None:
        return f"{text}, {question.network_gb_s:g} GB/s of network per node, {question.fabric}"
    assert question.nics is not None
    name, rate = question.nics.name, f"{question.nics.rate_gbit_s:g} Gb/s"
    return f"{text}, {question.nics.count} x {rate if name.isdigit() else f'{name} ({rate})'}, {question.fabric}"


def _number(value_gb_s: float) -> str:
    return f"{value_gb_s:8.1f} GB/s"


def _headline(expectation: Expectation) -> list[str]:
    limit: Limit = expectation.limit
    inputs = ", ".join(f"{name} = {value}" for name, value in limit.inputs)
    lines = [f"limit    {_number(limit.value_gb_s)}  nothing exceeds it: {limit.formula}", f"         {inputs}"]
    banded = [item for item in expectation.expected if item.low_gb_s is not None]
    for item in banded[:2]:
        lines.append(f"expect   {item.low_gb_s:8.0f} to {item.typical_gb_s:.0f} GB/s where {item.name} runs, for large messages")
    if not banded:
        lines.append("expect   unknown: too few published runs of this class")
    question = expectation.question
    if question.gpu is not None:
        lines.append(f"source   GPU: {question.gpu.source}")
    if question.nics is not None and question.nics.source and question.nodes > 1:
        lines.append(f"source   NIC: {question.nics.source}")
    return lines


def _model(expectation: Expectation) -> list[str]:
    if not expectation.expected:
        return []
    lines = ["estimate from the rates that NCCL counts with, and payload after headers (not a limit)"]
    for item in expectation.expected:
        band = "no band" if item.low_gb_s is None else f"tuned {item.low_gb_s:.0f} to {item.typical_gb_s:.0f}"
        lines.append(f"  {_number(item.estimate.value_gb_s)}  {item.name:<9} {item.binds} binds, {band}")
    return lines


def _published(found: Answer) -> list[str]:
    matches = found.matches
    if matches.exact:
        count = len(matches.exact)
        lines = [f"published, same regime: {count} row{'s' if count > 1 else ''}, median {format_bandwidth(matches.median_gb_s)}"]
        lines += [_row(row, "") for row in matches.exact]
    elif matches.nearest:
        lines = [f"published: no row of this regime; {len(matches.nearest)} nearest (nearest, not the same)"]
        lines += [_row(near.row, f"differs: {', '.join(near.differences)}; ") for near in matches.nearest]
    else:
        lines = ["published: no row of this regime or near it"]
    if matches.other:
        lines.append("  shown, not counted:")
        lines += [_row(row, f"{row.grade.value}; {row.algorithm or 'algorithm not stated'}; ") for row in matches.other]
    return lines


def _row(row: Row, prefix: str) -> str:
    figure = row.busbw_gb_s
    assert figure is not None
    size = f" at {format_size(row.size_bytes)}" if row.size_bytes is not None else ""
    nodes = "" if row.nodes is None else f"{row.nodes} node{'s' if row.nodes > 1 else ''}; "
    note = f"; {row.note}" if row.note else ""
    return f"  {_number(figure.value)}{size}  {prefix}{nodes}{_source(row.source)}{note}"


def _source(source: Source) -> str:
    return ", ".join(part for part in (source.title, source.address, source.date) if part)


def _thresholds(found: Answer) -> list[str]:
    from busbw.parsers.judge.baselines import blind

    limit = found.expectation.limit
    lines = []
    for near in found.matches.thresholds:
        figure = near.row.busbw_gb_s
        assert figure is not None
        share = f"{figure.value / limit.value_gb_s:.0%} of the limit"
        blindness = ", too low to see a fabric that lost a third" if blind(figure.value, limit) else ""
        differs = f"; differs: {', '.join(near.differences)}" if near.differences else ""
        lines.append(f"  {_number(figure.value)}  {share}{blindness}; {_source(near.row.source)}{differs}")
    for row in found.matches.refused:
        figure = row.busbw_gb_s
        assert figure is not None
        size = "" if row.size_bytes is None else f" at {format_size(row.size_bytes)}"
        lines.append(f"  {_number(figure.value)}  refused, no system of this kind gives it{size}: {_source(row.source)}")
    return ["floors that clouds and tools ship (to pass, not to expect)", *lines] if lines else []


def _articles(found: Answer) -> list[str]:
    rows = found.matches.articles
    return ["quoted by articles, without a run's output: never judged by", *(_row(row, "") for row in rows)] if rows else []


def _curves(curves: tuple[Curve, ...], question: Question) -> list[str]:
    from busbw.parsers.judge.baselines import share_at
    from busbw.parsers.judge.hardware import find_gpu

    lines = []
    for curve in curves:
        shares = [(size, share_at(curve, size)) for size in _SIZES]
        text = " · ".join(f"{format_size(size)} {share:.0%}" for size, share in shares if share is not None)
        other = "" if find_gpu(curve.gpu) == question.gpu else ", another GPU"
        lines.append(f"  {curve.gpu}, {curve.nodes} x {curve.gpus_per_node} GPUs{other}: {text}; {_source(curve.source)}")
    return ["by message size, share of the figure for the largest", *lines] if lines else []


def _nics(figures: tuple[NicFigure, ...]) -> list[str]:
    lines = []
    for figure in figures:
        value = f"{figure.gbit_s:g} Gb/s" if figure.gbit_s is not None else f"at most {figure.latency_max_us:g} µs"
        kind = "floor" if figure.kind == "acceptance-threshold" else "measured"
        note = f"; {figure.note}" if figure.note else ""
        lines.append(f"  {value}  {kind}, {figure.test}, {figure.link}; {_source(figure.source)}{note}")
    return ["one NIC by perftest", *lines] if lines else []


def _latency(expectation: Expectation) -> list[str]:
    if not expectation.latency_us:
        return []
    text = ", ".join(f"{name} {format_time_us(value)}" for name, value in expectation.latency_us)
    return [f"a few bytes, by NCCL's model: {text}; measured systems lie between 0.85 and 10 times it (EFA, TCPXO and RCCL highest)"]


def _rules(found: Answer) -> list[str]:
    question = found.expectation.question
    nics = question.nics if question.nodes > 1 else None
    return ["rules by which others judge", *(_rule(rule, nics) for rule in found.rules)] if found.rules else []


def _rule(rule: RuleOfThumb, nics: Nics | None) -> str:
    here = ""
    if nics is not None:
        each = dict(rule.gb_s_per_nic).get(nics.rate_gbit_s)
        here = "" if each is None else f" (here {nics.count} x {each:g} = {nics.count * each:g} GB/s)"
    return f"  {rule.rule}{here}: {rule.used}; {_source(rule.source)}"
