"""First-run scores of `busbw why` on logs that nobody tuned it on.

    python tests/bench/why_cases.py seal TEXTS --batch 1       before the first run
    python tests/bench/why_cases.py run TEXTS --batch 1        once; records the answers
    python tests/bench/why_cases.py curve                      all recorded batches
    python tests/bench/why_cases.py regrade TEXTS [--batch 1]  today's answers, not recorded
    python tests/bench/why_cases.py ablate TEXTS [--batch 1]   today's score without each part
    python tests/bench/why_cases.py bases TEXTS [--batch 1]    today's calibration by what read the lines
    python tests/bench/why_cases.py second FILE                agreement of a second label
    python tests/bench/why_cases.py readers FILE               what people say of the text alone
    python tests/bench/why_cases.py fetch TEXTS                texts of public threads

TEXTS is a folder of files named `ID.txt`, or of folders named `ID` where a case has one file per
rank or node. They are other people's words and stay outside the project:
`tests/why_cases/index.yaml` holds where each was published, its SHA-256, and the label.
`seal` writes the hash of text and label; `run` refuses a text or a label that has changed since,
and a batch that has been run before. Batches are commits: the label lands before the answers.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from busbw.cli import why_reading
from busbw.parsers.findings import consequences, courses, diagnose, guesses, message_clues, rules

FOLDER = Path(__file__).parents[1] / "why_cases"
INDEX = FOLDER / "index.yaml"
RESULTS = FOLDER / "results.yaml"
STATED = ("certain", "likely")
LEVELS = ("certain", "likely", "possible")
VISIBLE = ("yes", "partly")
"""The headline counts labelled cases whose cause can be read from the text, at least in part."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One finding of `busbw why`."""

    id: str
    confidence: str
    text: str
    """Title and cause, for labels that no id of the catalogue fits."""


@dataclass(frozen=True)
class Grade:
    """One case against its label."""

    case: str
    kind: str
    """labelled, unknown or healthy."""
    visible: str
    first: bool
    third: bool
    forbidden: bool
    symptom: bool
    """The first answer restates what the text says; the cause is not among the first."""
    silent: bool
    """No answer at all, though a line of the text reports a failure."""
    level: str
    """Confidence of the first answer; empty without one."""
    quiet: bool
    """Nothing stated as certain or likely except what the label allows."""


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def text_path(folder: Path, case: str) -> Path:
    """Where a case lies: a file, or a folder with one file per rank or node."""
    one = folder / case
    return one if one.is_dir() else folder / f"{case}.txt"


def text_digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and hashes of a folder's files."""
    if path.is_file():
        return digest(path.read_bytes())
    files = sorted(f for f in path.rglob("*") if f.is_file())
    rows = [f"{f.relative_to(path).as_posix()} {digest(f.read_bytes())}\n" for f in files]
    return digest("".join(rows).encode())


def label_digest(label: Row) -> str:
    """SHA-256 of a label in canonical JSON."""
    return digest(json.dumps(label, sort_keys=True, ensure_ascii=False).encode())


def load(path: Path) -> Any:
    """A YAML file, or an empty list."""
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else []


def save(path: Path, rows: Any) -> None:
    """Write YAML in one fixed form."""
    text = yaml.safe_dump(rows, sort_keys=False, allow_unicode=True, width=100)
    path.write_text(text, encoding="utf-8")


def changed(row: Row, folder: Path | None) -> str:
    """What of a sealed row is not as it was sealed; empty when all is."""
    if row.get("label_sha256") != label_digest(row["expected"]):
        return "label"
    if folder is None:
        return ""
    path = text_path(folder, row["id"])
    if not path.exists():
        return "text (missing)"
    return "" if text_digest(path) == row.get("sha256") else "text"


def seal(rows: list[Row], folder: Path, batch: int, date: str) -> int:
    """Hash text and label of the rows of a batch that have no hash yet; how many."""
    number = 0
    for row in rows:
        if row["batch"] != batch or "label_sha256" in row:
            continue
        row["date"] = date
        row["sha256"] = text_digest(text_path(folder, row["id"]))
        row["label_sha256"] = label_digest(row["expected"])
        number += 1
    return number


def ask(command: Sequence[str], path: Path) -> list[Answer]:
    """What `busbw why FILE --json` answers, best first.

    Raises:
        ValueError: the command printed no findings.
    """
    env = {**os.environ, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    run = subprocess.run(
        [*command, "why", str(path), "--json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        env=env,
        check=False,
    )
    if run.returncode not in (0, 1, 3):
        raise ValueError(f"{path.name}: exit status {run.returncode}: {run.stderr.decode()[-300:]}")
    if not run.stdout:  # it read nothing, and said why on its standard error
        return []
    findings = json.loads(run.stdout)["findings"]
    return [
        Answer(f["id"], f["confidence"], f"{f.get('title', '')}\n{f.get('cause', '')}")
        for f in findings
    ]


def kind_of(label: Row) -> str:
    """labelled, unknown or healthy."""
    if label.get("expect_unknown"):
        return "unknown"
    return "healthy" if label.get("expect_healthy") else "labelled"


def named_in(label: Row) -> set[str]:
    """The findings that the label judges by their id, whatever their words are."""
    return {
        name for key in ("accept", "also_ok", "must_not", "symptom") for name in label.get(key, ())
    }


def accepts(label: Row, answer: Answer) -> bool:
    """Whether an answer is the labelled cause."""
    if answer.id in label.get("accept", ()):
        return True
    wording = label.get("accept_text")
    if not wording or answer.id in named_in(label):
        return False
    return re.search(wording, f"{answer.id}\n{answer.text}", re.IGNORECASE) is not None


def grade(row: Row, answers: Sequence[Answer]) -> Grade:
    """Compare answers with the label."""
    label = row["expected"]
    kind = kind_of(label)
    never = set(label.get("must_not", ()))
    allowed = {name for key in ("accept", "also_ok", "symptom") for name in label.get(key, ())}
    stated = {answer.id for answer in answers if answer.confidence in STATED}
    hits = [accepts(label, answer) for answer in answers]
    leading = answers[0].id if answers else ""
    return Grade(
        case=row["id"],
        kind=kind,
        visible=str(label.get("visible", "yes")),
        first=any(hits[:1]),
        third=any(hits[:3]),
        forbidden=leading in never or bool(stated & never),
        symptom=not any(hits[:1]) and leading in label.get("symptom", ()),
        silent=not answers and bool(label.get("failure", kind == "labelled")),
        level=answers[0].confidence if answers else "",
        quiet=stated <= allowed,
    )


def wilson(right: int, number: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson's score interval)."""
    if not number:
        return 0.0, 1.0
    z = 1.96
    share = right / number
    centre = share + z * z / (2 * number)
    spread = z * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    scale = 1 + z * z / number
    return (centre - spread) / scale, (centre + spread) / scale


def share(right: int, number: int) -> str:
    """`31 of 40 0.78 (0.63-0.88)`."""
    low, high = wilson(right, number)
    return f"{right:3d} of {number:3d} {right / max(1, number):.2f} ({low:.2f}-{high:.2f})"


def summary(name: str, grades: Sequence[Grade]) -> str:
    """The line of one batch."""
    judged = [g for g in grades if g.kind == "labelled" and g.visible in VISIBLE]
    open_ends = [g for g in grades if g.kind != "labelled"]
    cells = (
        f"{name:8}",
        share(sum(g.first for g in judged), len(judged)),
        share(sum(g.third for g in judged), len(judged)),
        f"{sum(g.symptom for g in judged):8d}",
        f"{sum(g.forbidden for g in grades):10d}",
        f"{sum(g.silent for g in grades):7d}",
        f"{sum(g.quiet for g in open_ends):4d} of {len(open_ends)}",
    )
    return "  ".join(cells)


HEADER = (
    "batch     first                         in the first three            "
    "symptom only  forbidden  silent  quiet"
)


def calibration(grades: Iterable[Grade]) -> str:
    """How often a first answer of each certainty is the cause."""
    number: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for g in grades:
        if g.kind != "labelled" or g.visible not in VISIBLE:
            continue
        number[g.level] += 1
        right[g.level] += g.first
    return "\n".join(f"{level:9} {share(right[level], number[level])}" for level in LEVELS)


def chosen(rows: Iterable[Row], batch: int | None) -> list[Row]:
    """The rows of one batch, or of all."""
    return [row for row in rows if batch is None or row["batch"] == batch]


def answers_of(
    folder: Path, rows: Iterable[Row], command: Sequence[str]
) -> dict[str, list[Answer]]:
    """Ask for each row, in the order of the index."""
    return {row["id"]: ask(command, text_path(folder, row["id"])) for row in rows}


def recorded(result: Row) -> dict[str, list[Answer]]:
    """The answers that a batch's record holds."""
    return {case: [Answer(*answer) for answer in got] for case, got in result["answers"].items()}


def misses(rows: Iterable[Row], answers: dict[str, list[Answer]]) -> list[str]:
    """One line per case that is not right first."""
    lines = []
    for row in rows:
        got = answers[row["id"]]
        g = grade(row, got)
        good = g.first if g.kind == "labelled" else g.quiet
        if good and not g.forbidden:
            continue
        label = row["expected"]
        want = "|".join(label.get("accept", ())) or f"({g.kind})"
        said = " ".join(f"{a.id}({a.confidence})" for a in got[:3]) or "-"
        marks = [name for name in ("third", "forbidden", "symptom", "silent") if getattr(g, name)]
        lines.append(f"{row['id']}  {g.visible:6}  {want:40}  {said}  {' '.join(marks)}".rstrip())
    return lines


def run_batch(folder: Path, batch: int, command: Sequence[str], commit: str) -> str:
    """The first run of a sealed batch, written down.

    Raises:
        SystemExit: a label or text has changed since it was sealed, or the batch has been run.
    """
    rows, results = chosen(load(INDEX), batch), load(RESULTS)
    if any(result["batch"] == batch for result in results):
        raise SystemExit(f"batch {batch} has had its first run; see {RESULTS.name}")
    wrong = {row["id"]: changed(row, folder) for row in rows if changed(row, folder)}
    if wrong or not rows:
        raise SystemExit(f"batch {batch} is not as it was sealed: {wrong or 'no rows'}")
    answers = answers_of(folder, rows, command)
    grades = [grade(row, answers[row["id"]]) for row in rows]
    results.append(
        {
            "batch": batch,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "commit": commit,
            "answers": {
                case: [[a.id, a.confidence, kept_text(rows, case, a)] for a in got[:8]]
                for case, got in answers.items()
            },
            "bases": {row["id"]: bases_of(folder, row["id"])[:8] for row in rows},
        }
    )
    save(RESULTS, results)
    return "\n".join([*misses(rows, answers), HEADER, summary(str(batch), grades)])


def kept_text(rows: Iterable[Row], case: str, answer: Answer) -> str:
    """The answer's words, where they decide whether it is right; else nothing: they quote the log."""
    label = next(row["expected"] for row in rows if row["id"] == case)
    return answer.text if label.get("accept_text") and answer.id not in named_in(label) else ""


def curve() -> str:
    """First-run scores over batches, and the calibration of all."""
    rows = {row["id"]: row for row in load(INDEX)}
    lines, everything = [HEADER], []
    for result in load(RESULTS):
        grades = [grade(rows[case], got) for case, got in recorded(result).items()]
        lines.append(summary(str(result["batch"]), grades))
        everything += grades
    lines += [
        summary("all", everything),
        "",
        "first answers, by certainty",
        calibration(everything),
    ]
    return "\n".join(lines)


def nothing(*_: object, **__: object) -> None:
    """A part that is switched off and gives nothing."""


def no_items(*_: object, **__: object) -> tuple[()]:
    """A part that is switched off and finds nothing."""
    return ()


def never(*_: object) -> bool:
    """A part that is switched off and says no."""
    return False


def no_guesses(*_: object) -> guesses.Guesses:
    """Guesses that are switched off."""
    return guesses.Guesses()


def rules_without(*names: str) -> Callable[[], Any]:
    """All rules but these."""
    chosen = tuple(rule for rule in rules.all_rules() if rule.name not in names)
    return lambda: chosen


def parts() -> dict[str, tuple[Any, str, Any]]:
    """Part → module, name and what stands in its place while it is off."""
    return {
        "vocabularies": (message_clues, "message_clues", no_items),
        "all rules": (rules, "all_rules", no_items),
        "differences": (rules, "all_rules", rules_without("differences")),
        "objects and places": (
            rules,
            "all_rules",
            rules_without("named-objects", "failing-place"),
        ),
        "settings at work": (rules, "all_rules", rules_without("settings-at-work")),
        "what explains what": (consequences, "explain", nothing),
        "weak signs promoted": (consequences, "promote", nothing),
        "usual reasons": (consequences, "add_reasons", nothing),
        "warnings outlived": (courses, "is_outlived", never),
        "text search": (guesses, "of", no_guesses),
    }


@contextmanager
def without(module: Any, name: str, stand_in: Any) -> Iterator[None]:
    """One part off, for as long as this lasts."""
    original = getattr(module, name)
    setattr(module, name, stand_in)
    try:
        yield
    finally:
        setattr(module, name, original)


def ablate(folder: Path, rows: Sequence[Row]) -> str:
    """The scores with one part switched off at a time, in this process."""
    readings = {row["id"]: why_reading.read([str(folder / f"{row['id']}.txt")]) for row in rows}

    def score(name: str) -> str:
        grades = []
        for row in rows:
            findings = diagnose.diagnose(readings[row["id"]].evidence).findings
            answers = [Answer(f.id, f.confidence.value, f"{f.title}\n{f.cause}") for f in findings]
            grades.append(grade(row, answers))
        return f"{name}\n{summary('', grades)}"

    lines = [HEADER, score("all parts")]
    for name, (module, attribute, stand_in) in parts().items():
        with without(module, attribute, stand_in):
            lines.append(score(f"without {name}"))
    return "\n".join(lines)


def bases_of(folder: Path, case: str) -> list[list[Any]]:
    """What each answer rests on, in this process: origin, weight, lines, part of the best line."""
    diagnosis = diagnose.diagnose(why_reading.read([str(text_path(folder, case))]).evidence)
    return [[b.origin, str(b.weight), b.lines, b.role] for b in diagnosis.bases]


def calibration_by_basis(folder: Path, rows: Sequence[Row]) -> str:
    """How often a first answer is the cause, by what read its lines, in this process."""
    number: Counter[tuple[str, ...]] = Counter()
    right: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        diagnosis = diagnose.diagnose(
            why_reading.read([str(text_path(folder, row["id"]))]).evidence
        )
        answers = [
            Answer(f.id, f.confidence.value, f"{f.title}\n{f.cause}") for f in diagnosis.findings
        ]
        g = grade(row, answers)
        if not answers or g.kind != "labelled" or g.visible not in VISIBLE:
            continue
        basis = diagnosis.bases[0]
        for key in (("",), ("origin", basis.origin), ("line", basis.role)):
            number[(g.level, *key)] += 1
            right[(g.level, *key)] += g.first
    return "\n".join(
        f"{' '.join(key):50} {share(right[key], number[key])}" for key in sorted(number)
    )


def agreement(path: Path) -> str:
    """How often a second label accepts what the first accepts."""
    rows = {row["id"]: row["expected"] for row in load(INDEX)}
    second = load(path)
    kinds = both = same = 0
    differing = []
    for entry in second:
        one, two = rows[entry["id"]], entry["expected"]
        kinds += kind_of(one) == kind_of(two)
        shared = set(one.get("accept", ())) & set(two.get("accept", ()))
        overlap = bool(shared) or kind_of(one) == kind_of(two) != "labelled"
        both += overlap
        same += set(one.get("accept", ())) == set(two.get("accept", ()))
        if not overlap:
            differing.append(entry["id"])
    number = len(second)
    return "\n".join(
        [
            f"kind      {share(kinds, number)}",
            f"a shared accepted id  {share(both, number)}",
            f"the same accepted ids {share(same, number)}",
            f"differing {' '.join(differing) or '-'}",
        ]
    )


def readers(path: Path) -> str:
    """The grades of people who had the text and the list of findings, beside the first runs' on the
    same cases: what the texts tell at most. Also without the cases whose signs they had seen."""
    rows = {row["id"]: row for row in load(INDEX)}
    said = load(path)
    first_runs = {case: row for run in load(RESULTS) for case, row in recorded(run).items()}
    lines = [HEADER]
    for name, entries in (("all", said), ("unseen", [e for e in said if not e.get("signs_seen")])):
        people, runs = [], []
        for entry in entries:
            row = rows[entry["id"]]
            answers = [Answer(found, entry["sure"], "") for found in entry["answers"]]
            people.append(grade(row, answers))
            runs.append(grade(row, first_runs[entry["id"]]))
        lines += [summary(f"{name}, readers", people), summary(f"{name}, first runs", runs)]
    return "\n".join([*lines, "", calibration(people)])


def cut(body: str, first: str, last: str) -> str:
    """The lines of a comment from the one with hash `first` to the one with hash `last`.

    Hashes are the first 12 hexadecimal digits of the SHA-256 of the stripped line.
    """
    lines = body.replace("\r\n", "\n").split("\n")
    marks = [digest(line.strip().encode())[:12] for line in lines]
    start = marks.index(first)
    end = start + marks[start:].index(last)
    return "\n".join(lines[start : end + 1]) + "\n"


def thread(url: str, token: str) -> str:
    """Body and comments of a GitHub issue, as the API gives them."""
    match = re.fullmatch(r"https://github\.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)", url)
    if not match:
        raise ValueError(f"{url}: not an issue of GitHub")
    base = f"https://api.github.com/repos/{match[1]}/issues/{match[2]}"
    parts = []
    for address in (base, f"{base}/comments?per_page=100"):
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            got = json.load(reply)
        parts += [got["body"]] if isinstance(got, dict) else [comment["body"] for comment in got]
    return "\n".join(part or "" for part in parts)


def fetch(folder: Path, token: str) -> str:
    """Write the texts that are missing; those that do not hash as sealed are named."""
    lines = []
    for row in load(INDEX):
        path = text_path(folder, row["id"])
        if path.exists() or "first" not in row:
            continue
        try:
            text = cut(thread(row["url"], token), row["first"], row["last"])
        except (OSError, ValueError) as error:
            lines.append(f"{row['id']}: {error}")
            continue
        path.write_text(text, encoding="utf-8")
        lines.append(f"{row['id']}: {changed(row, folder) or 'as sealed'}")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    todo = top.add_subparsers(dest="todo", required=True)
    for name in ("seal", "run", "regrade", "ablate", "bases", "fetch"):
        one = todo.add_parser(name)
        one.add_argument("texts", type=Path)
        if name != "fetch":
            one.add_argument("--batch", type=int, required=name in ("seal", "run"))
        if name in ("run", "regrade"):
            one.add_argument("--command", default="busbw", help="the command that is graded")
        if name == "run":
            one.add_argument("--commit", required=True, help="the commit that is graded")
    todo.add_parser("curve")
    todo.add_parser("second").add_argument("labels", type=Path)
    todo.add_parser("readers").add_argument("answers", type=Path)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    args = parser().parse_args(argv)
    if args.todo == "seal":
        rows = load(INDEX)
        today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        print(f"{seal(rows, args.texts, args.batch, today)} sealed")
        save(INDEX, rows)
    elif args.todo == "run":
        print(run_batch(args.texts, args.batch, args.command.split(), args.commit))
    elif args.todo == "regrade":
        rows = chosen(load(INDEX), args.batch)
        answers = answers_of(args.texts, rows, args.command.split())
        grades = [grade(row, answers[row["id"]]) for row in rows]
        print("\n".join([*misses(rows, answers), HEADER, summary("today", grades)]))
    elif args.todo == "ablate":
        rows = chosen(load(INDEX), args.batch)
        here = [row for row in rows if (args.texts / f"{row['id']}.txt").exists()]
        print(ablate(args.texts, here))
    elif args.todo == "bases":
        rows = chosen(load(INDEX), args.batch)
        here = [row for row in rows if text_path(args.texts, row["id"]).exists()]
        print(calibration_by_basis(args.texts, here))
    elif args.todo == "curve":
        print(curve())
    elif args.todo == "second":
        print(agreement(args.labels))
    elif args.todo == "readers":
        print(readers(args.answers))
    else:
        print(fetch(args.texts, os.environ.get("GITHUB_TOKEN", "")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
