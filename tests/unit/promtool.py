"""promtool over the alert rules of docs/examples, for the tests that have a run's gauges."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docs/examples/prometheus/busbw.rules.yml"


def program() -> str:
    """Its path.

    It is in Debian's package prometheus: `apt-get download prometheus && dpkg-deb -x prometheus_*.deb
    build/prometheus` installs no server.
    """
    here = ROOT / "build/prometheus/usr/bin/promtool"
    found = shutil.which("promtool") or (str(here) if here.exists() else "")
    if not found:
        pytest.skip("no promtool: apt-get download prometheus && dpkg-deb -x … build/prometheus")
    return found


def tested(folder: Path, text: str, alerts: dict[str, bool]) -> str:
    """What promtool says of the rules over the gauges of a run: which alerts are open after it."""
    series = [
        {"series": line.rpartition(" ")[0], "values": f"{float(line.rpartition(' ')[2]):.6g}x5"}
        for line in text.splitlines()
        if not line.startswith("#") and "timestamp" not in line
    ]
    # `count` has no labels: the test is about which alerts are open, and not about their texts.
    asked = [
        {
            "expr": f'count(ALERTS{{alertname="{name}"}}) > bool 0 or vector(0)',
            "eval_time": "3h",
            "exp_samples": [{"labels": "{}", "value": int(is_open)}],
        }
        for name, is_open in alerts.items()
    ]
    case = {"interval": "1h", "input_series": series, "promql_expr_test": asked}
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1h", "tests": [case]}
    (folder / "test.yml").write_text(yaml.safe_dump(document))
    done = subprocess.run(
        (program(), "test", "rules", str(folder / "test.yml")),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr
