"""Of a chain of exceptions the first one is stated, and what only passes it on is not.

The texts are composed in the forms of Python 3.13, PyTorch 2.8, Ray 2.50, vLLM 0.11 and DCGM's bindings.
"""

from pathlib import Path

import pytest

from busbw.cli import main, why_reading
from busbw.model import Finding
from busbw.parsers.findings.diagnose import diagnose

HEAD = "torch 2.8.0+cu128\nNCCL version 2.27.3+cuda12.8\n"
RAY = """\
ray.exceptions.RayTaskError(AssertionError): ray::W.step() (pid=4711, ip=10.0.0.3)
  File "/w/moe.py", line 88, in route
    assert a == b, "expert 4 differs"
AssertionError: expert 4 differs

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/main.py", line 31, in main
    raise RuntimeError("training failed, see worker log") from e
RuntimeError: training failed, see worker log
"""
SPAWN = """\
Traceback (most recent call last):
  File "/w/t.py", line 3, in main
    mp.spawn(f, nprocs=4)
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/w/a.py", line 9, in step
    x()
RuntimeError: shard bucket is empty
"""
LOADER = """\
RuntimeError: Caught RuntimeError in DataLoader worker process 3.
Original Traceback (most recent call last):
  File "/w/d.py", line 9, in __getitem__
    x()
RuntimeError: sample 17 has two channels
"""
POOL = """\
multiprocessing.pool.RemoteTraceback:
\"\"\"
Traceback (most recent call last):
  File "/w/tok.py", line 9, in encode
    raise RuntimeError("bad token in shard 7")
RuntimeError: bad token in shard 7
\"\"\"

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/main.py", line 3, in <module>
    pool.map(encode, shards)
RuntimeError: tokenizing stopped
"""
ENGINE = """\
(EngineCore_0 pid=480) ERROR 01-02 10:00:05 [core.py:718] EngineCore failed to start.
(EngineCore_0 pid=480) ERROR 01-02 10:00:05 [core.py:718] AttributeError: 'XConfig' object has no attribute 'rope'
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
DCGM = """\
Traceback (most recent call last):
  File "/usr/share/dcgm/bindings/dcgm_structs.py", line 658, in _dcgmCheckReturn
    raise DCGMError(ret)
dcgm_structs.DCGMError_ModuleNotLoaded: the module for this request is not there
"""
COMMAND = (
    "torch._inductor.exc.InductorError: CalledProcessError: Command '['/usr/bin/gcc', '/tmp/main.c']'"
    " returned non-zero exit status 1.\n"
)
LIMIT = "RuntimeError: this kernel only supports head sizes of at most 128\n"
ASSERT = "RuntimeError: CUDA error: device-side assert triggered\n"
NPU = (
    "[rank0]: RuntimeError: copy:csrc/a.cpp:274 NPU function error: SynchronizeStreamWithTimeout(s), error code is 507001\n"
    "[rank0]: EI9999: Inner Error!\n"
)


def first(*texts: str, folder: Path) -> Finding:
    for number, text in enumerate(texts):
        (folder / f"rank{number}.log").write_text(HEAD + text)
    return diagnose(why_reading.read([str(folder)]).evidence).findings[0]


@pytest.mark.parametrize(
    ("text", "finding", "words"),
    [
        pytest.param(RAY, "program-error", "expert 4 differs", id="raised-from"),
        pytest.param(SPAWN, "program-error", "shard bucket is empty", id="spawned"),
        pytest.param(LOADER, "program-error", "sample 17 has two channels", id="data-loader"),
        pytest.param(POOL, "program-error", "bad token in shard 7", id="pool"),
        pytest.param(ENGINE, "program-error", "no attribute 'rope'", id="engine"),
        pytest.param(DCGM, "program-error", "the module for this request", id="name-with-a-part"),
        pytest.param(COMMAND, "compile-failed", "/usr/bin/gcc", id="command"),
        pytest.param(
            "RuntimeError: \nThe detected CUDA version (11.8) mismatches the version that was used\n",
            "compile-failed",
            "detected CUDA version",
            id="message-on-the-next-line",
        ),
        pytest.param(LIMIT, "framework-setting-rejected", "at most 128", id="stated-limit"),
        pytest.param(NPU, "library-internal-error", "507001", id="device-of-another-vendor"),
        pytest.param(ASSERT, "program-error", "device-side assert", id="assert-on-the-device"),
    ],
)
def test_the_exception_that_says_why_comes_first(
    text: str, finding: str, words: str, tmp_path: Path
) -> None:
    answer = first(text, folder=tmp_path)
    assert answer.id == finding
    assert words in answer.cause


def test_an_exception_behind_an_escaped_line_end_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "2026-03-11 08:00:01 INFO torch cuda:0 step 2\n"
        '2026-03-11 08:00:02 ERROR Traceback (most recent call last):\\n  File "/app/train.py", line 8, in'
        " main\\n    x = batch['ids']\\nKeyError: 'ids'\n"
    )
    assert main(["why", str(log)]) == 1
    assert "[program-error]" in capsys.readouterr().out.splitlines()[0]


def test_the_traceback_in_another_file_comes_before_the_launcher(tmp_path: Path) -> None:
    launcher = (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
        "train.py FAILED\n  exitcode  : 1 (pid: 4713)\n"
    )
    own = 'Traceback (most recent call last):\n  File "/w/data.py", line 30, in main\n'
    own += "RuntimeError: vocab size differs: 32000 and 32128\n"
    answer = first(launcher, own, folder=tmp_path)
    assert (answer.id, "vocab size differs" in answer.cause) == ("program-error", True)
