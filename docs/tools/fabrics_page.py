"""docs/fabrics.md, from the fabric profiles: `python docs/tools/fabrics_page.py > docs/fabrics.md`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import vendors

from busbw.codec import load_yaml
from busbw.fabrics import profiles
from busbw.fabrics.profile import (
    Harmful,
    MpiOption,
    MustSee,
    Ports,
    Profile,
    ProfileVar,
    Sign,
    Trial,
)

_Entry = TypeVar("_Entry", ProfileVar, MpiOption, Trial, str)

_HEAD = """# Fabric profiles

What busbw sets for each fabric, why, and on which source; what a proof launch must show in NCCL's log; what is never set by default.
Generated from `harness/fabrics/*.yaml` by `python docs/tools/fabrics_page.py > docs/fabrics.md`; a test compares it.

`--env NAME=VALUE` wins over everything here. The caller's own `NCCL_*` variables are listed and ignored. `busbw run --dry-run` shows each
variable with its reason. Words in braces are facts of the cluster; where a fact is not known, the variable is left out.

Each section has what a profile adds to the one that it extends; a value there replaces the inherited one of the same name. The sources
are [at the end](#sources).

## A site's own profile

`-p ./mine.yaml`, or `fabric: ./mine.yaml` in the inventory (beside it), extends a profile of this page:

```yaml
inherits: rocev2
env:
  - {name: NCCL_IB_TC, value: "106", why: DSCP 26 is our lossless class, source: our network team}
  - {name: NCCL_NET, value: null, why: our plugin has a name of its own, source: our network team}
setup: {path: /opt/site/nccl-env.sh, why: paths of our plugin, source: our network team, optional: false}
```

- The form is that of busbw's own files: every value has a reason and a source; `since`, `until`, `purposes` and `machines` limit it.
- `value: null` takes a variable away from the ranks. `setup:` names a script on the nodes that each rank sources.
- Limits and published figures stay those of the profile that it extends. The run keeps the file's path and SHA-256.
- A value for some machines needs `labels: {machine: NAME}` in the inventory, with the provider's name of the machine.
- `since` and `until` are compared with the NCCL that the ranks were built with. Of binaries that were there the version is not known:
  `since` lets them pass, `until` does not.

## Providers without a file

Searched on 25 November 2026.

| provider | found | take |
| --- | --- | --- |
| Lambda | no public file with variables | what its nodes show |
| Together | scripts of single clusters, each with adapters of its own, and what five variables gain on one (a trial of `infiniband`) | `infiniband` |
| Crusoe GB200 | `nccl-gb200.yaml` sets an adapter that does not exist, and MPI's transport | what the nodes show |
| OCI GB200.4, GB200-v2.4 | adapters (`mlx5_0`, `1`, `3`, `4`), MNNVL, plugin; no traffic class | `infiniband` or `rocev2`, these rails |
| Broadcom Thor 2 | no provider's file | `thor2`, which says what is not known |
"""

_VENDORS = """## Beside the vendors' own files

The environment of a dry run beside what the vendor ships, from `docs/vendors/*.yaml`: equal values by name (the profile's table above has
them), the others with the reason. A test fails where the two differ and no reason is given. `NCCL_DEBUG` and its relatives are left out:
the run's own log decides them.
"""


def render() -> str:
    """The page; the same text for the same profiles."""
    loaded = [profiles.load(name) for name in profiles.names()]
    parts = [_HEAD, *(_profile(each) for each in (*_bases(loaded), *loaded))]
    parts += [_never(loaded), _harmful(loaded)]
    parts += [_VENDORS, *(vendors.section(name) for name in sorted(vendors.by_profile()))]
    return "\n".join([*parts, _sources("\n".join(parts))])


def _bases(loaded: Iterable[Profile]) -> list[Profile]:
    """The profiles that are only there to be extended."""
    bases = (profiles.base(each.name) for each in loaded)
    found = {each.name: each for each in bases if each is not None}
    return [found[name] for name in sorted(set(found) - set(profiles.names()))]


def _profile(each: Profile) -> str:
    """What a profile adds to the one that it extends, and what it replaces there."""
    base = profiles.base(each.name)
    chosen = each.name in profiles.names()
    after_title = "." if chosen else ", not to be chosen:"
    title = f"**{_plain(each.title)}**{after_title} {_plain(each.applies_to)}."
    lines = [f"## {each.name}", "", title]
    lines += [] if base is None else [f"Extends [{base.name}](#{base.name})."]
    lines += _settings(_own(each.env, base and base.env), _own(each.mpi, base and base.mpi))
    if each.setup is not None:
        need = ", where the node has it" if each.setup.optional else ""
        why = f"{_plain(each.setup.why)} {_link(each.setup.source)}"
        lines += ["", f"Each rank sources `{each.setup.path}`{need}: {why}."]
    if chosen:
        lines += ["", f"A proof launch must show: {_must_see(each.must_see)}."]
    shown_by = [_sign(sign) for sign in profiles.signs().get(each.name, ())]
    if shown_by:
        lines += ["", f"Detected by: {'; or '.join(shown_by)}."]
    trials = _own(each.trials, base and base.trials)
    if trials:
        lines += ["", "Worth a try on some sites, never set by itself:", ""]
        lines += [
            f"- `{t.name}={_code(t.value)}`: {_plain(t.when)}; {_plain(t.why)} {_link(t.source)}"
            for t in trials
        ]
    notes = _own(each.notes, base and base.notes)
    if notes:
        lines += ["", *(f"- {_plain(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _own(every: tuple[_Entry, ...], inherited: tuple[_Entry, ...] | None) -> list[_Entry]:
    return [entry for entry in every if entry not in (inherited or ())]


def _settings(variables: list[ProfileVar], options: list[MpiOption]) -> list[str]:
    """The table of variables and of Open MPI's options; no lines where there are neither."""
    rows = []
    for var in variables:
        when = "".join(
            (
                f" (from NCCL {var.since})" if var.since else "",
                f" (until NCCL {var.until})" if var.until else "",
                f" ({', '.join(var.purposes)} only)" if var.purposes else "",
                f" (machines {_plain(', '.join(var.machines))} only)" if var.machines else "",
            )
        )
        value = "unset" if var.value is None else f"`{_code(var.value)}`"
        rows.append(f"| `{var.name}` | {value} | {_cell(var.why)}{when} | {_link(var.source)} |")
    for option in options:
        rows.append(
            f"| `--mca {option.name}` | `{_code(option.value)}` | {_cell(option.why)} |"
            f" {_link(option.source)} |"
        )
    head = ["", "| variable | value | why | source |", "| --- | --- | --- | --- |"]
    return [*head, *rows] if rows else []


def _must_see(wanted: MustSee) -> str:
    found = [f"`Using network {' or '.join(wanted.networks)}`"] if wanted.networks else []
    found += [f"the plugin's lines (`{wanted.plugin}`)"] if wanted.plugin else []
    found += {
        True: ["`/GDRDMA` on every channel between nodes"],
        False: ["no `/GDRDMA`"],
        None: [],
    }[wanted.gdr]
    return ", ".join(found) or "nothing: it has no NCCL network to prove"


def _sign(sign: Sign) -> str:
    facts = []
    if sign.devices:
        facts.append("RDMA devices named " + " or ".join(f"`{glob}`" for glob in sign.devices))
    if sign.vendor is not None:
        facts.append(f"a machine of {sign.vendor}")
    if sign.directory is not None:
        facts.append(f"`{sign.directory}`")
    if sign.ports is Ports.NONE:
        facts.append("no active RDMA port")
    elif sign.ports is not None:
        facts.append(f"the fastest active RDMA ports are {sign.ports}")
    if sign.adapter is not None:
        facts.append(f"adapters of type {sign.adapter}")
    if sign.alone is not None:
        facts.append("one node" if sign.alone else "several nodes")
    return ", ".join(facts)


def _never(loaded: Iterable[Profile]) -> str:
    """Equal entries of several profiles once, with the profiles that have them."""
    users: dict[tuple[str, str, str, str], list[str]] = {}
    for each in loaded:
        for item in each.never_set:
            users.setdefault((item.name, item.why, item.instead, item.source), []).append(each.name)
    every = max((len(names) for names in users.values()), default=0)
    lines = [
        "## Never set by default",
        "",
        "| variable | why | instead | profiles | source |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (name, why, instead, source), names in sorted(users.items()):
        told = "all" if len(names) == every else ", ".join(names)
        lines.append(f"| `{name}` | {_cell(why)} | {_cell(instead)} | {told} | {_link(source)} |")
    return "\n".join(lines) + "\n"


def _harmful(loaded: Iterable[Profile]) -> str:
    found: dict[tuple[str, str], Harmful] = {}
    for each in loaded:
        for item in each.harmful:
            found.setdefault((item.name, item.why), item)
    lines = [
        "## Well-known settings that do harm",
        "",
        "| setting | why | instead | source |",
        "| --- | --- | --- | --- |",
    ]
    for item in found.values():
        values = (
            ", ".join(f"`{item.name}={_code(value)}`" for value in item.values) or f"`{item.name}`"
        )
        lines.append(
            f"| {values} | {_cell(item.why)} | {_cell(item.instead)} | {_link(item.source)} |"
        )
    return "\n".join(lines) + "\n"


@functools.cache
def _keys() -> dict[str, str]:
    """`title, address` as a profile has it → the key in `sources.yaml`."""
    path = Path(profiles.__file__).with_name("sources.yaml")
    known = load_yaml(path.read_text(encoding="utf-8"), path.name, dict[str, dict[str, str]])
    return {f"{each['title']}, {each['address']}": key for key, each in known.items()}


def _link(source: str) -> str:
    """The key of a source, which `_sources` links."""
    return f"[{_keys()[source]}]"


def _sources(page: str) -> str:
    """The sources that the page names: title and address of each once."""
    used = {key: source for source, key in sorted(_keys().items()) if f"[{key}]" in page}
    lines = ["## Sources", "", "| key | source |", "| --- | --- |"]
    lines += [
        f"| {key} | [{_cell(used[key].rpartition(', ')[0])}][{key}] |" for key in sorted(used)
    ]
    addresses = {key: source.rpartition(", ")[2] for key, source in used.items()}
    lines += ["", *(f"[{key}]: {addresses[key].removeprefix('docs/')}" for key in sorted(used))]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|").replace("\n", " ")


def _plain(text: str) -> str:
    return "".join(f"\\{char}" if char in "*_<>[]" else char for char in text)


def _code(text: str) -> str:
    return text.replace("`", "'").replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(render())
