"""A command that is stopped says how far it came, and how to go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.cli import main, stop_signals
from busbw.run import planning

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_run_that_is_stopped_before_it_measures_names_the_way_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(planning, "prepare", lambda *_: os.kill(os.getpid(), number))
    if number is signal.SIGINT:
        signal.signal(number, signal.default_int_handler)
    assert main(["run", "quick", "-w", "gpu-[1-2]", "-p", "tcp"]) == 130
    assert capsys.readouterr().err == (
        "busbw: error: interrupted before a node was contacted; nothing was measured\n"
        "busbw: next: start the same command again\n"
    )


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_check_ends_alike(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:
    from busbw.cli import check

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check, "_plan", lambda _: os.kill(os.getpid(), number))
    if number is signal.SIGINT:
        signal.signal(number, signal.default_int_handler)
    assert main(["check", "--links", "-w", "gpu-[1-2]", "-p", "tcp"]) == 130
    assert capsys.readouterr().err == (
        "busbw: error: interrupted before the check ended\n"
        "busbw: next: start the same command again\n"
    )


def test_a_signal_that_the_caller_ignores_stays_ignored() -> None:
    """As under `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop_signals.interrupt()
    os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_any_other_command_names_one_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from busbw.cli import read

    def stop(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(read, "run", stop)
    assert main(["read", "x.out"]) == 130
    assert capsys.readouterr().err == (
        "busbw: interrupted\nbusbw: next: start the same command again\n"
    )
