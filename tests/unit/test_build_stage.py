"""The build stage over nodes that share a file system: what each says of its tools is told by the
test, what is built is built here for real."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from plans import run_plan

from busbw import playbook
from busbw.building import node_types, recipe
from busbw.building.recipe import Benchmark, BuildOutcome, BuildPlan
from busbw.checks import toolchain
from busbw.checks.software import NodeFacts
from busbw.errors import BuildError
from busbw.fabrics import profiles
from busbw.model import BenchmarkCase, Cluster, Collective, Command, CommandResult, Node, Sizes
from busbw.parsers.tools.open_mpi import MpiVersion
from busbw.run import build as stage
from busbw.run import build_plans
from busbw.run.build_plans import BuildRequest
from busbw.run.context import Context
from busbw.store import artefacts, own_builds, run_directory
from busbw.store.run_directory import RunDir
from busbw.transport import Session
from busbw.transport.fanout import open_fleet
from busbw.transport.local import LocalTransport

MAKEFILE = (
    b"build/all_reduce_perf: main.c\n\tmkdir -p build\n\ttest -d $(CUDA_HOME)\n\t$(CC) -o $@ main.c"
    b" -DTARGET='\"$(NVCC_GENCODE)\"' -L$(NCCL_HOME)/lib -lnccl -L$(MPI_HOME)/lib -lmpi_stub\n"
)
MAIN = (
    b"#include <stdio.h>\nint f(void), g(void);\nint main(void) { puts(TARGET); return f() +"
    b" g(); }\n"
)
SOURCES = Benchmark(
    recipe.archive({"Makefile": MAKEFILE, "main.c": MAIN}),
    cuda=True,
    version="2.19.6",
    origin="n.tar.gz",
    sha256="ab",
)


@dataclass
class Here:
    """A transport to this machine whose nodes say of their tools what the test wants, and count
    what they are asked."""

    tools: dict[str, str]
    requests: list[tuple[str, str]] = field(default_factory=list)
    name: str = "local"

    def connect(self, node: Node, timeout_s: float) -> Session:
        return Told(self, LocalTransport().connect(node, timeout_s))

    def close(self) -> None: ...


@dataclass
class Told:
    """A session with its tools' answer in the place of the look."""

    here: Here
    inner: Session
    notes: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        return self.inner.node

    def run(self, command: Command) -> CommandResult:
        self.here.requests.append((command.label, self.node))
        if command.label == "toolchain":
            return CommandResult(
                self.node, command.argv, 0, self.here.tools[self.node].encode(), b"", 0.0
            )
        return self.inner.run(command)

    def close(self) -> None:
        self.inner.close()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a node says that has all; the libraries are there."""
    home = tmp_path_factory.mktemp("tools")
    for folder in ("lib", "include", "cuda-12.8", "cuda-13.0"):
        (home / folder).mkdir()
    for name, function in (("libnccl.so.2", "f"), ("libmpi_stub.so", "g")):
        words = (
            "cc",
            "-shared",
            "-o",
            str(home / "lib" / name),
            f"-Wl,-soname,{name}",
            "-x",
            "c",
            "-",
        )
        subprocess.run(words, input=f"int {function}(void) {{ return 0; }}".encode(), check=True)
    version = "nccl_MAJOR=2\nnccl_MINOR=27\nnccl_PATCH=5\n"
    return (
        "machine=x86_64\nlibc=glibc"
        f" 2.36\ncuda_home={home}/cuda-12.8\ncuda=12.8\nnccl_home={home}\n"
        f"nccl_library={home}/lib/libnccl.so.2\n{version}capability=9.0\n"
    )


@contextmanager
def context(tmp_path: Path, here: Here) -> Iterator[tuple[Context, list[str]]]:
    """(what the stage is handed, what it says)."""
    names = tuple(here.tools)
    cluster = Cluster(tuple(Node(name) for name in names), names[0], "test")
    case = BenchmarkCase("all-reduce", Collective.ALL_REDUCE, Sizes(8, 8))
    book = dataclasses.replace(playbook.load("quick"), cases=(case,))
    run = run_directory.create(tmp_path / "runs", "2026-11-21T12:00:00Z", "quick")
    plan = run_plan(
        cluster,
        book,
        profiles.load("infiniband"),
        run_id=run.run_id,
        started="2026-11-21T12:00:00Z",
        transport="local",
    )
    messages: list[str] = []
    with open_fleet(cluster, here, deadline_s=30) as fleet:
        yield (
            Context(
                run,
                plan,
                fleet,
                lambda: "2026-11-21T12:00:00Z",
                lambda step, text: messages.append(text),
            ),
            messages,
        )


def known(tools: str, names: tuple[str, ...]) -> dict[str, NodeFacts]:
    home = next(line for line in tools.splitlines() if line.startswith("nccl_home=")).partition(
        "="
    )[2]
    mpi = MpiVersion("Open MPI", "4.1.4", 4)
    return {
        name: NodeFacts(name, f"host-{name}", "/root", 0, "/usr/bin/mpirun", mpi, home, (), 8, None)
        for name in names
    }


def built(
    tmp_path: Path, here: Here, tools: str, benchmark: Benchmark = SOURCES
) -> tuple[BuildOutcome, list[str], RunDir]:
    with context(tmp_path, here) as (handed, messages):
        names = tuple(here.tools)
        root = str(tmp_path / "root")
        request = BuildRequest(handed, names[0], names, known(tools, names), benchmark, root)
        outcome = stage.build(request)
        return outcome, messages, handed.run


def library(tools: str) -> str:
    return next(line for line in tools.splitlines() if line.startswith("nccl_library=")).partition(
        "="
    )[2]


def printed(program: Path) -> str:
    return subprocess.run(
        (program,), env={}, capture_output=True, text=True, timeout=60, check=True
    ).stdout


def counted(here: Here, label: str) -> list[str]:
    return [node for request, node in here.requests if request == label]


def test_on_a_shared_file_system_one_build_is_all_and_nothing_is_copied(
    tmp_path: Path, tools: str
) -> None:
    here = Here(dict.fromkeys("abc", tools))
    outcome, _, run = built(tmp_path, here, tools)
    assert (counted(here, "build"), counted(here, "unpack")) == (["a"], [])
    assert (outcome.usable, outcome.version, outcome.origin, outcome.sha256) == (
        ("a", "b", "c"),
        "2.19.6",
        "n.tar.gz",
        "ab",
    )
    assert outcome.problems == ()
    assert [(proof.mpi_linked, proof.not_found, proof.nccl) for proof in outcome.proofs] == [
        (True, (), library(tools))
    ] * 3
    assert (
        printed(Path(outcome.folder) / "all_reduce_perf") == "-gencode=arch=compute_90,code=sm_90\n"
    ), "found by its RUNPATH"
    assert artefacts.load(run, "build.json", BuildOutcome) == outcome


def test_kinds_are_built_for_apart_and_what_cannot_stand_beside_the_head_is_left_out_with_its_reason(
    tmp_path: Path, tools: str
) -> None:
    here = Here(
        {
            "a": tools,
            "b": (
                tools.replace("cuda-12.8\ncuda=12.8", "cuda-13.0\ncuda=13.0").replace(
                    "capability=9.0", "capability=10.0"
                )
            ),
            "c": tools.replace("nccl_PATCH=5", "nccl_PATCH=3"),
            "d": tools.replace("cuda_home", "no_home"),
            "e": tools.replace("x86_64", "aarch64"),
            "f": tools.replace("cuda-12.8\n", "gone\n"),
            "g": tools,
        }
    )
    outcome, messages, _ = built(tmp_path, here, tools)
    assert [(each.builder, each.nodes, each.cuda, each.nccl) for each in outcome.builds] == [
        ("a", ("a", "g"), "12.8", "2.27.5"),
        ("b", ("b",), "13.0", "2.27.5"),
    ]
    assert (outcome.usable, counted(here, "build")) == (("a", "b", "g"), ["a", "b", "f"])
    assert outcome.problems[:3] == (
        (
            "c: NCCL 2.27.3, where the head has 2.27.5: NCCL refuses ranks of different versions:"
            " not measured in this run"
        ),
        "d: no CUDA toolkit on d, which nccl-tests is built with: not measured in this run",
        (
            "e: aarch64, where the head is x86_64: Open MPI starts ranks of one kind of processor:"
            " not measured in this run"
        ),
    )
    (failed,) = [text for text in outcome.problems if text.startswith("f")]
    # Make counts itself where another make runs the tests: `make[1]`.
    assert re.match(
        r"f: the benchmark does not build on f \(make ended with exit status 2\): make(\[\d\])?:"
        r" \*\*\* \[Makefile:3:",
        failed,
    )
    assert messages[0].startswith("3 node types: a,g; b: cuda 13.0 (there 12.8), cuda home ")
    targets = [
        printed(Path(each.directory) / "build/all_reduce_perf").strip() for each in outcome.builds
    ]
    assert targets == [
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_100,code=sm_100",
    ]
    chooser = (Path(outcome.folder) / "all_reduce_perf").read_text()
    first, second = (each.directory for each in outcome.builds)
    assert f"host-a|host-g) dir={first};;\nhost-b) dir={second};;\n" in chooser
    assert counted(here, "unpack") == ["a"], "the file system is shared: once is enough"


@pytest.mark.parametrize(
    ("cut", "lines"),
    [
        (
            "cuda_home",
            (
                "no CUDA toolkit on a, which nccl-tests is built with",
                "no nvcc on PATH, in $CUDA_HOME or /usr/local/cuda",
            ),
        ),
        (
            "nccl_library",
            (
                "no NCCL on a, which nccl-tests is built with",
                "include/nccl.h with libnccl.so.2: not in $NCCL_HOME, /usr, ",
            ),
        ),
    ],
)
def test_a_head_that_lacks_what_a_build_takes_ends_it(
    tmp_path: Path, tools: str, cut: str, lines: tuple[str, str]
) -> None:
    with pytest.raises(BuildError) as caught:
        built(tmp_path, Here({"a": tools.replace(cut, "x"), "b": tools}), tools)
    assert (caught.value.what, caught.value.seen[: len(lines[1])]) == lines


def test_a_build_that_fails_on_the_head_ends_it_with_the_compilers_line(
    tmp_path: Path, tools: str
) -> None:
    broken = dataclasses.replace(
        SOURCES,
        sources=recipe.archive(
            {"Makefile": MAKEFILE, "main.c": b"int main(void) { return oops; }\n"}
        ),
    )
    with pytest.raises(
        BuildError, match=r"the benchmark does not build on a \(make ended with exit status 2\)"
    ) as caught:
        built(tmp_path, Here({"a": tools}), tools, broken)
    assert "oops" in caught.value.seen


def test_binaries_that_are_there_are_proven_and_a_node_without_them_is_left_out(
    tmp_path: Path, tools: str
) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    here = Here(dict.fromkeys("ab", tools))
    prepared = Benchmark(None, directory=str(folder), origin=str(folder))
    with pytest.raises(BuildError) as caught:
        built(tmp_path, here, tools, prepared)
    assert caught.value.lines() == (
        f"error: no node has the binaries of nccl-tests in {folder}",
        f"seen: a: there is no folder {folder} with *_perf in it",
        (
            "next: name the folder of all_reduce_perf on the nodes, or the sources of nccl-tests"
            " here: --nccl-tests PATH"
        ),
    )
    subprocess.run(("cp", "/bin/true", str(folder / "all_reduce_perf")), check=True)
    outcome, _, _ = built(tmp_path, here, tools, prepared)
    assert (outcome.folder, outcome.builds, outcome.usable) == (str(folder), (), ("a", "b"))
    assert outcome.problems == (
        "the binary is not linked to MPI: every process would measure itself alone",
    )


def test_a_run_that_goes_on_proves_what_was_built_and_builds_it_again_where_it_is_gone(
    tmp_path: Path, tools: str
) -> None:
    here = Here(dict.fromkeys("ab", tools))
    with context(tmp_path, here) as (handed, messages):
        names, root = ("a", "b"), str(tmp_path / "root")
        request = BuildRequest(handed, "a", names, known(tools, names), SOURCES, root)
        first = stage.build(request)
        assert stage.build(request) == first
        assert counted(here, "build") == ["a"]
        (Path(first.folder) / "all_reduce_perf").write_text("cut")
        again = stage.build(request)
    assert counted(here, "build") == ["a", "a"]
    assert "the nodes do not have any more what was built: once more" in messages
    assert again.builds == first.builds
    assert (
        printed(Path(again.folder) / "all_reduce_perf") == "-gencode=arch=compute_90,code=sm_90\n"
    )


def test_the_stamp_says_what_was_built(tmp_path: Path) -> None:
    plans: list[BuildPlan] = [
        recipe.plan(b"x", ("A=1",), kind, "/r") for kind in ("one", "two", "one")
    ]
    assert plans[0] == plans[2]
    assert plans[0].stamp != plans[1].stamp


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine remembers of builds is the test's alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


REPLACED = "which this machine has no record of: not executed, built again"


def swapped(program: Path, mark: Path) -> bytes:
    """Plant another program; the one that was there."""
    genuine = program.read_bytes()
    program.unlink()
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    return genuine


def test_a_swapped_program_is_not_executed_but_built_again(tmp_path: Path, tools: str) -> None:
    here = Here(dict.fromkeys("ab", tools))
    first, messages, _ = built(tmp_path, here, tools)
    assert not [text for text in messages if REPLACED in text]
    again, messages, _ = built(tmp_path, here, tools)
    assert [each.reused for each in again.builds] == [True]
    program = Path(first.folder) / "all_reduce_perf"
    genuine = swapped(program, tmp_path / "was-run")
    third, messages, _ = built(tmp_path, here, tools)
    assert [each.reused for each in third.builds] == [False]
    assert [text for text in messages if REPLACED in text]
    assert program.read_bytes() == genuine
    assert third.usable == ("a", "b")
    assert not (tmp_path / "was-run").exists()


def test_a_build_that_this_machine_has_no_record_of_is_built_again(
    tmp_path: Path, tools: str
) -> None:
    here = Here(dict.fromkeys("ab", tools))
    built(tmp_path, here, tools)
    for record in (tmp_path / "state/busbw/builds").iterdir():
        record.unlink()
    outcome, messages, _ = built(tmp_path, here, tools)
    assert [each.reused for each in outcome.builds] == [False]
    assert [text for text in messages if REPLACED in text]


@dataclass
class Claiming(Here):
    """A node that says it reuses what is there, whatever it was told to look for."""

    def connect(self, node: Node, timeout_s: float) -> Session:
        return Claimant(self, LocalTransport().connect(node, timeout_s))


@dataclass
class Claimant(Told):
    """The session of such a node."""

    def run(self, command: Command) -> CommandResult:
        if command.label == "build":
            text = f"reused {command.argv[4]}\n".encode()
            return CommandResult(self.node, command.argv, 0, text, b"", 0.0)
        return super().run(command)


def test_a_node_that_claims_a_build_without_a_record_is_not_measured_with(
    tmp_path: Path, tools: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, _ = built(tmp_path, Here({"a": tools}), tools)
    swapped(Path(first.folder) / "all_reduce_perf", tmp_path / "was-run")
    for state in ("state", "elsewhere"):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / state))
        with pytest.raises(BuildError, match="no node has the binaries that were built") as failed:
            built(tmp_path, Claiming({"a": tools}), tools)
        assert failed.value.next_step.startswith("busbw run --resume runs/")
    assert not (tmp_path / "was-run").exists()


def test_a_replay_records_no_build(tmp_path: Path, tools: str) -> None:
    built(tmp_path, Here({"a": tools}, name="replay"), tools)
    assert not (tmp_path / "state/busbw/builds").exists()
    built(tmp_path, Here({"a": tools}), tools)
    assert len(list((tmp_path / "state/busbw/builds").iterdir())) == 1


def test_a_resumed_run_does_not_execute_a_swapped_program(tmp_path: Path, tools: str) -> None:
    here = Here(dict.fromkeys("ab", tools))
    with context(tmp_path, here) as (handed, _):
        names, root = ("a", "b"), str(tmp_path / "root")
        request = BuildRequest(handed, "a", names, known(tools, names), SOURCES, root)
        first = stage.build(request)
        genuine = swapped(Path(first.folder) / "all_reduce_perf", tmp_path / "was-run")
        again = stage.build(request)
    assert again.usable == ("a", "b")
    assert (Path(again.folder) / "all_reduce_perf").read_bytes() == genuine
    assert not (tmp_path / "was-run").exists()


def test_a_swapped_program_that_chooses_builds_is_replaced(tmp_path: Path, tools: str) -> None:
    newer = tools.replace("cuda-12.8", "cuda-13.0").replace("cuda=12.8", "cuda=13.0")
    here = Here({"a": tools, "b": newer})
    first, _, _ = built(tmp_path, here, tools)
    assert len(first.builds) == 2
    chooser = Path(first.folder) / "all_reduce_perf"
    genuine = swapped(chooser, tmp_path / "was-run")
    again, _, _ = built(tmp_path, here, tools)
    assert again.folder == first.folder
    assert chooser.read_bytes() == genuine
    assert not (tmp_path / "was-run").exists()


def test_two_runs_do_not_build_the_same_at_once(tmp_path: Path) -> None:
    """Nodes may share a home: the second would replace the folder that the first has just made."""
    text = """
import sys, time
from pathlib import Path
from busbw.store import own_builds
with own_builds.locked(["abc"], lambda: print("waits", flush=True), 60):
    print("begins", flush=True)
    sys.stdin.readline()
"""
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    first, second = (
        subprocess.Popen(
            (sys.executable, "-c", text),
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    )
    with first, second:
        printed = {job: job.stdout.readline() for job in (first, second) if job.stdout}
        assert sorted(printed.values()) == ["begins\n", "waits\n"]
        holder = first if printed[first] == "begins\n" else second
        waiting = second if holder is first else first
        holder.kill()
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "begins\n", "what is killed keeps nothing"
        assert waiting.stdin is not None
        waiting.stdin.write("\n")


def test_two_machines_with_one_home_on_the_nodes_leave_each_others_builds(
    tmp_path: Path, tools: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []
    for machine in ("login1", "login2", "login1", "login2"):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / machine))
        outcome, messages, _ = built(tmp_path, Here(dict.fromkeys("ab", tools)), tools)
        assert [text for text in messages if "another build" in text] == []
        outcomes.append((outcome.folder, outcome.proofs, outcome.builds[0].reused))
    first, second, *again = outcomes
    assert first[0] != second[0]
    assert again == [(*first[:2], True), (*second[:2], True)]


def test_a_machine_has_one_name_for_its_builds_whoever_asks_first(tmp_path: Path) -> None:
    text = """
from pathlib import Path
from busbw.store import own_builds
from busbw.store.run_directory import RunDir
print(own_builds.owner(RunDir(Path("none")), replay=False))
"""
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    jobs = [
        subprocess.Popen((sys.executable, "-c", text), env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    names = {job.communicate(timeout=60)[0].strip() for job in jobs}
    assert len(names) == 1
    assert re.fullmatch("[0-9a-f]{8}", names.pop())
    assert [path.name for path in (tmp_path / "busbw").iterdir()] == ["build-owner"]


@pytest.mark.parametrize("content", ["", "../../x", "g" * 8, "a" * 400])
def test_a_damaged_name_of_a_machine_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "busbw").mkdir()
    (tmp_path / "busbw/build-owner").write_text(content)
    assert own_builds.owner(RunDir(tmp_path), replay=False) == ""


FACTS = NodeFacts(
    "n1",
    "n1",
    "/root",
    0,
    "/usr/bin/mpirun",
    MpiVersion("Open MPI", "4.1.4", 4),
    "/usr",
    (),
    8,
    None,
)
ROCM = (
    "machine=x86_64\nlibc=glibc 2.36\nrocm_home=/opt/rocm\nrocm=6.3.0\nnccl_home=/opt/rocm\n"
    "nccl_library=/opt/rocm/lib/librccl.so\nnccl_link=1\n"
    "nccl_MAJOR=2\nnccl_MINOR=21\nnccl_PATCH=5\ncapability=gfx942\n"
)


def test_rccl_tests_are_built_with_hipcc_and_rccl(tmp_path: Path) -> None:
    """The command line, golden: no AMD hardware and no ROCm were at hand to run it."""
    sources = dataclasses.replace(SOURCES, hip=True)
    kind = node_types.type_of(toolchain.parse("n1", ROCM), FACTS, cuda=True)
    with context(tmp_path, Here({"n1": ROCM})) as (ready, _):
        request = BuildRequest(ready, "n1", ("n1",), {"n1": FACTS}, sources, "/root")
        plan = build_plans.plan_of(request, kind, owner="")
    assert plan.make_args == (
        "MPI=1",
        "MPI_HOME=/usr",
        "ROCM_PATH=/opt/rocm",
        "HIP_HOME=/opt/rocm",
        "NCCL_HOME=/opt/rocm",
        "CUSTOM_RCCL_LIB=/opt/rocm/lib",
        "GPU_TARGETS=gfx942",
        "BIN_FILES_LIST=all_reduce",
        "PATH=/opt/rocm/bin:/usr/local/bin:/usr/bin:/bin",
    )
    assert plan.run_path == "/opt/rocm/lib:/opt/rocm/lib"


@pytest.mark.parametrize(
    ("text", "hip", "words"),
    [
        (ROCM, False, "n1 has AMD's GPUs, and the sources are nccl-tests, which is CUDA's"),
        ("machine=x86_64\n", True, "no ROCm on n1, which rccl-tests is built with"),
        (ROCM.replace("nccl_library", "other"), True, "no RCCL on n1"),
    ],
)
def test_what_a_node_lacks_for_rccl_tests_is_named(text: str, hip: bool, words: str) -> None:
    kind = node_types.type_of(toolchain.parse("n1", text), FACTS, cuda=True)
    lacking = build_plans.lacking_for_build(kind, "n1", dataclasses.replace(SOURCES, hip=hip))
    assert lacking is not None
    assert lacking.what.startswith(words)


def test_the_version_of_nccl_is_known_where_all_kinds_have_one() -> None:
    def outcome(*versions: str | None) -> BuildOutcome:
        builds = tuple(
            recipe.NodeTypeBuild("s", "/d", "n1", False, ("n1",), nccl=each) for each in versions
        )
        return BuildOutcome("/d", builds, (), ("n1",), ())

    assert stage.nccl_version(outcome("2.27.5", "2.27.5")) == "2.27.5"
    assert stage.nccl_version(outcome("2.27.5", "2.28.3")) is None
    assert stage.nccl_version(outcome()) is None
