"""Packages that import their names late: what they offer, and what a start leaves alone."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

LOG = b"gpu1:41:42 [0] NCCL INFO NET/IB : No device found.\n"


@pytest.mark.parametrize("package", ["busbw.model", "busbw.codec", "busbw.reports"])
def test_every_name_that_a_package_offers_is_there(package: str) -> None:
    module = importlib.import_module(package)
    missing = [name for name in module.__all__ if getattr(module, name, None) is None]
    assert missing == []


def test_a_name_that_a_package_does_not_have_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match=r"^module 'busbw\.model' has no attribute 'Nodes'$"):
        importlib.import_module("busbw.model").__getattr__("Nodes")


def test_why_on_a_log_imports_no_records_of_runs_and_nothing_heavy(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_bytes(LOG)
    code = (
        "import sys, busbw.cli; busbw.cli.main(['why', sys.argv[1]]); print('LOADED', *sys.modules)"
    )
    argv = (sys.executable, "-c", code, str(log))
    # A cache of its own: other tests, with plug-ins, write theirs to the common one meanwhile.
    own = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run(argv, capture_output=True, timeout=120, check=True, env=own)  # fills the cache
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True, env=own)
    loaded = set(done.stdout.partition("LOADED ")[2].split())
    unwanted = {
        *("pandas", "numpy", "rich", "yaml", "pydantic", "jinja2", "paramiko"),
        *("busbw.model.run", "busbw.model.logs", "busbw.codec.typed", "busbw.reports.input"),
        *("busbw.parsers.findings.facts", "busbw.parsers.findings.parts"),
        *("busbw.parsers.logs.nccl_debug", "busbw.parsers.tools.nvidia_smi_query"),
    }
    assert loaded & unwanted == set()
