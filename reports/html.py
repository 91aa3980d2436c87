"""`report.html`: one file, complete without scripts, with no outside request.

Sections are the files `sections/NN-name.html.j2`, in the order of their numbers. A section that
needs more than the run's record has a module of the same name in `busbw.reports.sections`, whose
`view(report)` computes it; a view of `None`, or a template that writes nothing, leaves the section
out. Written against Jinja2 3.1; the policy is CSP level 2 with hashes, so no style attribute and no
handler may appear in any template.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib
import json
import pkgutil
import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from busbw.reports import lead, phrases, safe
from busbw.reports import sections as views
from busbw.reports.charts.svg import Drawing
from busbw.reports.input import ReportInput
from busbw.units import counted, format_bandwidth, format_duration, format_size, format_time_us

if TYPE_CHECKING:
    from jinja2 import Environment

_SECTION = re.compile(r"(\d\d)-([a-z-]+)\.html\.j2\Z")
_LINKABLE = re.compile(r"raw/[A-Za-z0-9._/@+-]+\Z")


@dataclass(frozen=True, slots=True)
class Section:
    """One rendered part of the page."""

    name: str
    heading: str
    """Of its `h2`, and its word in the page's navigation; empty = it brings its own heading."""
    body: Drawing


def render(report: ReportInput) -> str:
    """The whole page. The same input gives the same bytes."""
    environment = _environment()
    rendered = [_section(environment, name, report) for name in section_names(environment)]
    sections = tuple(filter(None, rendered))
    style = _asset(environment, "style.css")
    # What repeats in the margins of every printed page can only stand in a style sheet.
    style_of_run = _print_margins(report)
    script = _asset(environment, "script.js")
    return environment.get_template("page.html.j2").render(
        title=lead.title(report.result),
        result=report.result,
        sections=sections,
        style=Drawing(style),
        style_of_run=Drawing(style_of_run),
        script=Drawing(script),
        policy=policy((style, style_of_run), script),
    )


def standalone(template: str, **values: object) -> str:
    """A page of its own beside the report, with its style and its policy."""
    environment = _environment()
    style, script = _asset(environment, "style.css"), _asset(environment, "script.js")
    page = environment.get_template(template)
    return page.render(
        style=Drawing(style), script=Drawing(script), policy=policy((style,), script), **values
    )


def section_names(environment: Environment) -> tuple[str, ...]:
    """Template names of the sections, in page order."""
    return tuple(sorted(name for name in environment.list_templates() if _SECTION.match(name)))


def policy(styles: tuple[str, ...], script: str) -> str:
    """The content security policy: nothing from outside, only these styles and this script, images
    only from the page itself."""
    hashes = " ".join(_hash(style) for style in styles)
    return (
        f"default-src 'none'; img-src data:; style-src {hashes}; script-src {_hash(script)};"
        " base-uri 'none'; form-action 'none'"
    )


def artefact_link(artefact: str) -> str:
    """Address of an artefact relative to the report, or the empty text where the name is not one
    the run directory has."""
    return artefact if _LINKABLE.match(artefact) and ".." not in artefact else ""


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _section(environment: Environment, template: str, report: ReportInput) -> Section | None:
    match = _SECTION.match(template)
    assert match, template
    name = match[2]
    module = name.replace("-", "_")
    view: object = None
    if module in {info.name for info in pkgutil.iter_modules(views.__path__)}:
        view = importlib.import_module(f"{views.__name__}.{module}").view(report)
        if view is None:
            return None
    rendered = environment.get_template(template).make_module(
        {"report": report, "result": report.result, "view": view}
    )
    body = str(rendered).strip()
    return Section(name, str(getattr(rendered, "heading", "")), Drawing(body)) if body else None


@functools.cache
def _environment() -> Environment:
    """Kept: to compile the templates takes longer than to fill them."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader(
            [
                PackageLoader("busbw.reports", "templates"),
                PackageLoader("busbw.reports.sections", "."),
            ]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "nodes": phrases.nodes,
        "where": phrases.where,
        "percent": phrases.percent,
        "count": counted,
        "bandwidth": format_bandwidth,
        "number": phrases.number,
        "duration": format_duration,
        "size": format_size,
        "time": format_time_us,
        "sign": phrases.SIGNS.__getitem__,
        "right": phrases.right,
        "sure": phrases.sure,
        "title": phrases.title,
        "to_confirm": phrases.to_confirm,
        "entry": phrases.entry,
        "other_causes": phrases.other_causes,
        "word": phrases.LABELS.__getitem__,
        "reference": phrases.reference,
        "link": artefact_link,
        "json": _json,
        "is_command": phrases.is_command,
        "unbroken": _unbroken,
        "label": {"confirm": phrases.CONFIRM, "after": phrases.AFTER}.__getitem__,
    }
    return environment


def _finalize(value: object) -> object:
    """What every `{{ … }}` passes through before it is escaped: control characters become marks,
    and nothing unformatted slips out."""
    if hasattr(value, "__html__") or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        return safe.visible(value)
    raise TypeError(
        f"a template writes {value!r}: only text and whole numbers may be written, formatted by a"
        " filter"
    )


def _json(value: object) -> Drawing:
    """Data for the page's script, as text that cannot end its element."""
    return Drawing(safe.script_json(json.dumps(value, separators=(",", ":"), sort_keys=True)))


_OPTION = re.compile(r"(?<!\S)(?=\S*-)\S{2,28}(?!\S)")
"""A word of a command with a hyphen, at which a browser would break it; a longer one must break."""


def _unbroken(command: str) -> Drawing:
    """A command whose options stay whole at the end of a line: `-` and `d` on two lines is another
    command."""
    # Escaping makes no hyphen and no blank.
    return Drawing(_OPTION.sub(r"<span>\g<0></span>", escape(safe.visible(command))))


def _asset(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _print_margins(report: ReportInput) -> str:
    result = report.result
    banner = ""
    if result.emulated:
        text = safe.css_string("EMULATED: no number here says anything about real hardware")
        banner = f"@top-center{{content:{text};font-weight:700}}"
    run = safe.css_string(f"busbw {result.tool_version} run {result.run_id} {result.verdict.value}")
    return (
        "@media print{@page{size:A4;margin:16mm 14mm 16mm;font:8pt"
        f" system-ui,sans-serif;color:#5c6066;{banner}"
        f'@bottom-left{{content:{run}}}@bottom-right{{content:counter(page) " / "'
        " counter(pages)}}}"
    )
