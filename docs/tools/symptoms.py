"""Write docs/symptoms/: one page for each layer of the catalogue, and an index with one line per id.

.venv/bin/python docs/tools/symptoms.py
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from pathlib import Path

from busbw.parsers import findings
from busbw.parsers.findings import catalogue
from busbw.parsers.findings.catalogue import Entry, Role, Signal, Step, Weight
from busbw.parsers.findings.rules import all_rules
from busbw.reports.phrases import right

FOLDER = Path(__file__).parents[1] / "symptoms"
TITLES = {
    "build": "Build",
    "checks": "Checks",
    "cloud": "Clouds",
    "comparison": "Comparisons and soaks",
    "framework": "Frameworks",
    "gpu": "GPUs",
    "host": "Hosts",
    "infiniband": "InfiniBand",
    "launch": "Launch",
    "messages": "Messages of libraries",
    "nvlink": "NVLink",
    "pcie": "PCIe",
    "performance": "Performance",
    "rdma": "RDMA",
    "roce": "RoCE",
    "run": "Runs",
    "settings": "Settings",
    "sockets": "Sockets",
    "stall": "Stalls",
    "survey": "Surveys",
    "variance": "Variance",
}
"""YAML file → heading of its page."""
_WEIGHTS = {
    Weight.CERTAIN: "proof",
    Weight.STRONG: "strong",
    Weight.WEAK: "weak",
    Weight.REQUIRES: "must hold",
    Weight.EXCLUDES: "counter-evidence",
}
_ROLES = {Role.FINDING: "a result of busbw's own measurements", Role.CHECK: "a check"}

_INDEX = """# Symptoms, causes, fixes

Every id that busbw prints, by layer. `busbw why ID` prints one entry, `busbw why LOG` looks for them in a log.
These pages are generated from `parsers/findings/*.yaml` by `docs/tools/symptoms.py`: {entries} entries, {rules} rules.

Each line of an entry's evidence is *proof*, *strong*, *weak*, a condition that *must hold*, or *counter-evidence*.
"""


def layers() -> dict[str, tuple[Entry, ...]]:
    """The catalogue by YAML file, in the order of the files' names."""
    files = importlib.resources.files(findings).iterdir()
    found = {}
    for file in sorted(files, key=lambda file: file.name):
        layer, _, ending = file.name.rpartition(".")
        if ending == "yaml":
            entries = catalogue.parse(file.read_text(encoding="utf-8"), file.name)
            found[layer] = tuple(sorted(entries, key=lambda entry: entry.id))
    return found


def pages() -> dict[str, str]:
    """File name → text of every page."""
    by_layer = layers()
    home = {entry.id: layer for layer, entries in by_layer.items() for entry in entries}
    found = {"index.md": _index(by_layer)}
    for layer, entries in by_layer.items():
        body = "\n".join(_entry(entry, layer, home) for entry in entries)
        found[f"{layer}.md"] = f"# {TITLES[layer]}\n\n[All symptoms](index.md)\n\n{body}"
    return found


def _index(by_layer: dict[str, tuple[Entry, ...]]) -> str:
    rules = all_rules()
    out = [_INDEX.format(entries=sum(map(len, by_layer.values())), rules=len(rules))]
    for layer, entries in by_layer.items():
        out.append(f"## [{TITLES[layer]}]({layer}.md)\n")
        out += [
            f"- [{entry.id}]({_link(entry, layer)}): {_plain(entry.title)}" for entry in entries
        ]
        out.append("")
    out.append("## Rules\n\nEach rule judges several lines together.\n")
    out += [f"- **{rule.name}**: {_plain(rule.conclusion)}" for rule in rules]
    return "\n".join(out) + "\n"


def _link(entry: Entry, layer: str) -> str:
    return _link_to(entry.id, layer)


def _link_to(entry_id: str, layer: str) -> str:
    """`layer`: of its page; "" = it stands on the same page."""
    page = f"{layer}.md" if layer else ""
    # GitHub and mkdocs drop the dots of a heading from its anchor.
    return f"{page}#{entry_id.replace('.', '')}"


def _link_from(layer: str, entry_id: str, home: dict[str, str]) -> str:
    """From the page of a layer to an entry. home: id → layer."""
    return _link_to(entry_id, "" if home[entry_id] == layer else home[entry_id])


def _entry(entry: Entry, layer: str, home: dict[str, str]) -> str:
    lines = [f"## {entry.id}", "", f"**{_plain(entry.title)}** ({_facts(entry)})", ""]
    lines.append(f"Cause: {_plain(entry.cause)} {_plain(entry.explanation)}")
    if entry.signals:
        lines += ["", *(f"- {_sign(signal)}" for signal in entry.signals)]
    lines += ["", *(_step(number, step) for number, step in enumerate(entry.fix, 1))]
    if entry.fixed_as is not None:
        target = _link_from(layer, entry.fixed_as, home)
        lines += ["", f"Fixed as [{entry.fixed_as}]({target}) is."]
    lines += _codes("Verify", entry.verify) + _codes("To confirm", entry.settle)
    if entry.explains:
        others = ", ".join(f"[{name}]({_link_from(layer, name, home)})" for name in entry.explains)
        lines += ["", f"Explains: {others}"]
    if entry.reasons:
        lines += ["", "Comes from:", ""]
        lines += [f"- {each.id} ({each.cases} cases): {_plain(each.why)}" for each in entry.reasons]
    if entry.trust:
        lines += ["", f"Trust: {_plain(entry.trust)}"]
    if entry.references:
        sources = "; ".join(_reference(title, address) for title, address in entry.references)
        lines += ["", f"See: {sources}"]
    return "\n".join(lines) + "\n"


def _facts(entry: Entry) -> str:
    """Severity, role, stages and fabrics, in one line."""
    stages = ", ".join((entry.stage, *entry.also_stages))
    severity = [entry.severity.value] if entry.severity else []
    role = _ROLES.get(entry.role, entry.role.value)
    return "; ".join(
        [*severity, role, f"shows at {stages}", f"fabrics: {', '.join(entry.fabrics)}"]
    )


def _sign(signal: Signal) -> str:
    text = signal.matches[0].strip() if signal.matches else signal.expr or ""
    return f"{_WEIGHTS[signal.weight]}: {signal.source}: `{_code(text)}`"


def _step(number: int, step: Step) -> str:
    notes = [f"needs {right(step.needs)}"] if step.needs != "user" else []
    if step.disruptive:
        notes.append("disrupts running jobs")
    note = f" ({', '.join(notes)})" if notes else ""
    commands = "".join(f"\n   `{_code(command)}`  " for command in step.run)
    return f"{number}. {_plain(step.do)}{note}{commands}"


def _codes(label: str, texts: Sequence[str]) -> list[str]:
    return ["", f"{label}: " + "; ".join(f"`{_code(text)}`" for text in texts)] if texts else []


def _reference(title: str, address: str) -> str:
    if address.startswith("http"):
        return f"[{_plain(title)}]({address})"
    return f"{_plain(title)} ({_plain(address)})"


def _plain(text: str) -> str:
    """Text in which no sign of Markdown means anything."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|" else char for char in text)


def _code(text: str) -> str:
    """Text for a code span: backquotes cannot stand in it."""
    return text.replace("`", "'").replace("\n", " ")


def main() -> None:
    """Write the pages, and delete those of layers that are gone."""
    texts = pages()
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
