"""What a run or a report leaves for machines: files requested by name, GitHub's step summary, a
message to a webhook.

The run's own directory has all of it anyway; these are copies at the places that CI systems and
collectors look at.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli import write_message
from busbw.errors import RunDirError, UsageError
from busbw.files import read_beneath

if TYPE_CHECKING:
    from busbw.model import RunResult

_WEBHOOK = "BUSBW_WEBHOOK"
_MAIL_TO, _MAIL_FROM, _SMTP = "BUSBW_MAIL_TO", "BUSBW_MAIL_FROM", "BUSBW_SMTP"
_TIMEOUT_S = 10.0


def register(parser: argparse.ArgumentParser) -> None:
    """The options, equal for every command that ends in a verdict."""
    group = parser.add_argument_group("for machines")
    group.add_argument(
        "--junit",
        type=Path,
        metavar="FILE",
        help="JUnit XML; not measured is an error, a shortfall a failure",
    )
    group.add_argument(
        "--prom",
        type=Path,
        metavar="FILE",
        help="gauges for the textfile collector (a name ending in .prom), replaced at once",
    )
    group.add_argument(
        "--cluster",
        default="",
        metavar="NAME",
        help="with --prom: the gauges' label `cluster`, where one Prometheus sees several",
    )
    group.add_argument("--csv", type=Path, metavar="FILE", help="one row per case and size")
    group.add_argument(
        "--notify",
        action="store_true",
        help=(
            f"post the last line to the address in ${_WEBHOOK} (Slack's form), and mail it with the"
            f" report to those in ${_MAIL_TO}"
        ),
    )
    group.add_argument("--strict", action="store_true", help="exit status 1 for warnings too")


def check(args: argparse.Namespace) -> None:
    """What can be known to fail before hours of measuring.

    Raises:
        UsageError: a file's folder is not there, or --notify has no address.
    """
    for option, path in (("--junit", args.junit), ("--prom", args.prom), ("--csv", args.csv)):
        if path is not None and not path.parent.is_dir():
            raise UsageError(
                f"{option} {path}: no such folder",
                seen=str(path.parent),
                next_step=f"mkdir -p {path.parent}",
            )
    if args.notify and not (os.environ.get(_WEBHOOK) or os.environ.get(_MAIL_TO)):
        raise UsageError(
            f"--notify needs an address in ${_WEBHOOK} or ${_MAIL_TO}",
            seen="neither is set",
            next_step=f"export {_WEBHOOK}=https://… or {_MAIL_TO}=ops@example.com",
        )


def deliver(args: argparse.Namespace, run: Path, result: RunResult, last_line: str) -> int:
    """Write and send what was requested; returns the exit status. What cannot be sent is reported,
    and the verdict stands.

    Raises:
        RunDirError: a file cannot be written.
    """
    from busbw.model import Status
    from busbw.reports import csv, metrics
    from busbw.store.whole_files import write_atomically

    for path, name in ((args.junit, "junit.xml"), (args.prom, "metrics.prom")):
        if path is not None:
            content = read_beneath(run, name)
            if path is args.prom and args.cluster:
                content = metrics.render(result, args.cluster).encode()
            write_atomically(path.absolute(), content, mode=0o666)
    if args.csv is not None:
        write_atomically(args.csv.absolute(), csv.render(result).encode(), mode=0o666)
    _github(run, result)
    if args.notify and (address := os.environ.get(_WEBHOOK)):
        _notify(address, result, last_line)
    if args.notify and (to := os.environ.get(_MAIL_TO)):
        _mail(to, run, result, last_line)
    return 1 if args.strict and result.verdict is Status.WARN else result.exit_status


def _github(run: Path, result: RunResult) -> None:
    """The step summary and the annotations of a GitHub workflow. They go to standard error: the
    runner reads both streams."""
    from busbw.reports import markdown

    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with open(summary, "a", encoding="utf-8") as stream:
                stream.write(read_beneath(run, "summary.md").decode() + "\n")
        except OSError as error:
            raise RunDirError(
                "cannot append to $GITHUB_STEP_SUMMARY",
                seen=str(error),
                next_step=f"the summary is in {run}/summary.md",
            ) from error
    if os.environ.get("GITHUB_ACTIONS") == "true":
        write_message(markdown.github_annotations(result))


def _notify(address: str, result: RunResult, last_line: str) -> None:
    """Post one small JSON document. The address is a secret: neither it nor a server's answer is
    ever printed or kept."""
    import urllib.error
    import urllib.parse
    import urllib.request

    host = urllib.parse.urlsplit(address).hostname or "?"
    body = {
        "text": f"{last_line}\n{result.headline}",
        "verdict": result.verdict.value,
        "run": result.run_id,
        "exit_status": result.exit_status,
    }
    problem = ""
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        problem = "the address is not http or https"
    else:
        request = urllib.request.Request(
            address, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
                pass
        except (OSError, ValueError) as error:
            problem = type(error).__name__
            if isinstance(error, urllib.error.HTTPError):
                problem = f"status {error.code}"
    if problem:
        write_message(f"busbw: warning: the webhook at {host} got no message: {problem}\n")


def _mail(to: str, run: Path, result: RunResult, last_line: str) -> None:
    """The diagnosis as the subject, the summary as the text, the report attached. The server is
    asked for TLS; a password is never sent: a relay that knows this machine is what it takes."""
    import smtplib
    import socket
    from email.message import EmailMessage

    host, _, port = os.environ.get(_SMTP, "localhost").partition(":")
    letter = EmailMessage()
    letter["Subject"] = " ".join(last_line.split())
    letter["From"] = os.environ.get(_MAIL_FROM) or f"busbw@{socket.gethostname()}"
    letter["To"] = to
    try:
        letter.set_content(f"{result.headline}\n\n{read_beneath(run, 'summary.md').decode()}")
        letter.add_attachment(
            read_beneath(run, "report.html"),
            maintype="text",
            subtype="html",
            filename=f"{result.run_id}.html",
        )
        with smtplib.SMTP(host, int(port or 25), timeout=_TIMEOUT_S) as server:
            server.ehlo()
            if server.has_extn("starttls"):
                server.starttls()
            server.send_message(letter)
    except (OSError, ValueError, smtplib.SMTPException) as error:
        seen = type(error).__name__
        write_message(f"busbw: warning: the mail server {host} took no mail: {seen}\n")
