"""`busbw bundle`: one archive for a ticket: the redacted report, the raw lines that it rests on,
versions, and a text for each of those who may have to act."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import options, write_text
from busbw.errors import UsageError
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.reports.redact import Redactor
    from busbw.reports.ticket import Recipient, Ticket

_SUMS = "SHA256SUMS"


def register(parser: argparse.ArgumentParser) -> None:
    """Options of `busbw bundle`."""
    options.add_run(parser)
    parser.add_argument(
        "--to",
        type=Path,
        metavar="FILE",
        help="the archive (default busbw-bundle-RUN.tar.gz in the current folder)",
    )
    live = parser.add_argument_group("a job that runs now, in the place of a run")
    live.add_argument(
        "--live", action="store_true", help="look at the job as busbw why --live does"
    )
    live.add_argument("--job", metavar="SLURM_ID", help="the job to look at")
    options.add_nodes(live)
    options.add_reach(live, connect_timeout_s=5.0)
    parser.set_defaults(pid=None, local=False, redact=True, json=False, out=Path("runs"))


def run(args: argparse.Namespace) -> int:
    """Write it. 0 = the archive is there, whatever the verdict in it."""
    files, home, name = _live(args) if args.live else _of_run(args)
    target = args.to or Path(f"busbw-bundle-{name}.tar.gz")
    content = archive(files, target.name.partition(".")[0])
    _write(target, content)
    first = files["README.txt"].splitlines()[2]
    write_text(
        f"{target}  {len(content):,} bytes, {counted(len(files), 'file')}\n{first}\n"
        f"table of names and aliases, not to be sent: {home}\n"
    )
    return 0


def _of_run(args: argparse.Namespace) -> tuple[dict[str, str], Path, str]:
    from busbw.reports import lead, ticket
    from busbw.run import publish
    from busbw.store import run_directory

    given = (args.nodes, args.inventory, args.exclude, args.job)
    if any(each is not None for each in given):
        raise UsageError(
            "nodes or a job are for --live",
            seen="-i, -w, -x or --job without --live",
            next_step="busbw bundle --live -w NODES",
        )
    directory = run_directory.open_existing(args.run)
    copy = publish.redacted(directory)
    home = _keep_names(directory.path, copy.redactor)
    result = copy.report.result
    files = {f"report/{name}": text for name, text in copy.files.items()}
    files |= {_inside(each.artefact): each.text for each in copy.report.excerpts}
    first = ticket.recipient(lead.deciding(result))
    written = _with_tickets(files, ticket.tickets(result), copy.redactor)
    return _with_readme(written, lead.title(result), first), home, directory.run_id


def _live(args: argparse.Namespace) -> tuple[dict[str, str], Path, str]:
    from busbw.cli import why_live
    from busbw.parsers.stall.ticket import ticket as incident
    from busbw.reports import ticket
    from busbw.triage import script

    cluster = why_live.cluster_of(args)
    answer, path = why_live.sample(args, script.CollectOptions(), cluster)
    verdict = answer.verdict
    files = {
        "report/why.txt": why_live.live_answer(verdict, answer.directory, answer.collected_s),
        "report/why.json": why_live.live_document(verdict, answer.directory),
    }
    title = why_live.brief(verdict)
    first: Recipient | None = None
    texts: tuple[Ticket, ...] = ()
    if why_live.live_exit_status(verdict) == 1:
        first = ticket.recipient(verdict.findings[0])
        texts = ticket.live_tickets(title, incident(verdict, answer.directory))
    written = _with_tickets(files, texts, None)
    return _with_readme(written, title, first), path / "redacted-names.csv", path.name


def _keep_names(run: Path, redactor: Redactor) -> Path:
    from busbw.reports.redact import names_file
    from busbw.store.whole_files import write_atomically

    home = run / "redacted-names.csv"
    write_atomically(home, names_file(redactor), mode=0o600)
    return home


def _with_tickets(
    files: dict[str, str], texts: tuple[Ticket, ...], redactor: Redactor | None
) -> dict[str, str]:
    from busbw.cli import version
    from busbw.codec import dump_json

    these = version.versions()
    if redactor is not None:
        these = redactor.record(these)
    named = {f"tickets/{each.recipient.value}.txt": each.text for each in texts}
    return files | named | {"versions.json": dump_json(these)}


def _with_readme(files: dict[str, str], title: str, first: Recipient | None) -> dict[str, str]:
    """The files with a README and the sums of all."""
    from busbw.reports.ticket import NAMES

    whom = "nobody: there is nothing to report" if first is None else NAMES[first]
    names = "".join(f"{name}\n" for name in sorted(files))
    files = files | {"README.txt": _README.format(title=title, whom=whom, names=names)}
    sums = (
        f"{hashlib.sha256(text.encode()).hexdigest()}  {name}"
        for name, text in sorted(files.items())
    )
    return files | {_SUMS: "".join(f"{line}\n" for line in sums)}


_README = """\
{title}

Send it first to: {whom}

Hosts, addresses, GUIDs, serials, users and paths are aliases (node-001, ip-001), the same everywhere
in this archive; credentials are [masked]. The table of names stays with the sender.
raw/ has the outputs that the findings and launches rest on, each at most 64 KiB, cut in the middle
where it was longer. The whole run directory, with the answers of all nodes, stays with the sender.
versions.json is of the machine that wrote this archive; the versions on the nodes are in report/.

{names}"""


def _inside(artefact: str) -> str:
    """The path of an artefact as a name in the archive: below raw/, whatever it was called."""
    parts = [part for part in artefact.split("/") if part not in ("", ".", "..")]
    return "/".join(parts if parts[:1] == ["raw"] else ["raw", *parts])


def archive(files: dict[str, str], folder: str) -> bytes:
    """A tar.gz of text files below one folder: the same files give the same bytes."""
    import gzip
    import io
    import tarfile

    tape = io.BytesIO()
    with tarfile.open(fileobj=tape, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in sorted(files.items()):
            content = text.encode()
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(tape.getvalue(), mtime=0)


def _write(target: Path, content: bytes) -> None:
    """Write it; a file of that name with other content is not replaced.

    Raises:
        UsageError: there is one.
        RunDirError: the disk refused it.
    """
    from busbw.files import read_given
    from busbw.store.whole_files import write_atomically

    if not target.parent.is_dir():
        raise UsageError(f"--to {target}: no such folder", next_step=f"mkdir -p {target.parent}")
    if target.exists():
        try:
            same = read_given(target) == content
        except OSError:
            same = False
        if not same:
            raise UsageError(
                f"{target} exists with other content",
                seen="it is not replaced",
                next_step="busbw bundle RUN --to FILE, or remove it",
            )
        return
    write_atomically(target.absolute(), content)
