"""The files of docs/examples that a platform team installs: each executed here, or validated by the
tool that reads it. Slurm's are run in tests/lab/test_act.py."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from busbw import cli
from busbw.launch import mpijob
from busbw.launch.mpijob import MpiJob

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/examples"
KUBERNETES = EXAMPLES / "kubernetes"
BUSBW = Path(sys.executable).with_name("busbw")


VALIDATE = """
import sys, yaml, kubernetes_validate
objects = list(yaml.safe_load_all(open(sys.argv[1])))
for each in objects:
    kubernetes_validate.validate(each, "1.32", strict=True)
wrong = objects[-1] | {"spec": objects[-1]["spec"] | {"nodeSelecter": {}}}
try:
    kubernetes_validate.validate(wrong, "1.32", strict=True)
except kubernetes_validate.ValidationError:
    print(len(objects), 1)
"""
"""Prints how many objects there are, and that a misspelt field is refused."""


def ran(*argv: object, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in argv],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **more,
    )


def downloaded(name: str, package: str) -> dict[str, str]:
    """An environment in which Python finds a package that only these tests need."""
    folder = ROOT / "build" / name
    if not folder.is_dir():
        pytest.skip(f"no {name}: {sys.executable} -m pip install --target build/{name} {package}")
    return {**os.environ, "PYTHONPATH": str(folder), "LC_ALL": "C.UTF-8"}


def documents() -> list[dict[str, Any]]:
    files = sorted(set(KUBERNETES.glob("*.yaml")) - {KUBERNETES / "kustomization.yaml"})
    return [
        each
        for path in files
        if path.name != "pod.yaml"
        for each in yaml.safe_load_all(path.read_text())
    ]


def of_kind(kind: str) -> dict[str, Any]:
    return next(each for each in documents() if each["kind"] == kind)


def test_every_manifest_is_in_the_kustomization() -> None:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    files = {*listed["resources"], *listed["configMapGenerator"][0]["files"], "kustomization.yaml"}
    assert files == {path.name for path in KUBERNETES.iterdir()}


def test_kubernetes_own_schemas_take_every_object(tmp_path: Path) -> None:
    environment = downloaded("kubernetes", "kubernetes-validate==1.37.0")
    rendered = tmp_path / "all.yaml"
    if (
        shutil.which("kubectl")
        and (done := ran("kubectl", "kustomize", KUBERNETES)).returncode == 0
    ):
        rendered.write_text(done.stdout)
    else:
        rendered.write_text(yaml.safe_dump_all(documents()))
    pod = {"containers": [{"name": "c", "image": "i"}]}
    pod |= yaml.safe_load((KUBERNETES / "pod.yaml").read_text())
    with rendered.open("a") as stream:
        stream.write("---\n")
        yaml.safe_dump(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod}, stream
        )
    done = ran(sys.executable, "-c", VALIDATE, rendered, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["11", "1"]


def test_the_nightly_command_is_one_that_busbw_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = of_kind("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    words = [
        word.replace("/etc/busbw/pod.yaml", str(KUBERNETES / "pod.yaml"))
        for word in spec["containers"][0]["args"]
    ]
    assert cli.main([*words, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    for text in ('"nodeSelector"', '"tolerations"', '"serviceAccountName": "busbw"', '"registry"'):
        assert text in printed


def test_the_role_has_what_the_run_does_and_nothing_more() -> None:
    source = (ROOT / "harness/run/kubernetes.py").read_text()
    used = set(re.findall(r'prefix, "(\w+)"', source))
    assert used == {"apply", "delete", "get", "logs"}, "kubectl does something new: see the Role"
    rules = {
        resource: set(rule["verbs"])
        for rule in of_kind("Role")["rules"]
        for resource in rule["resources"]
    }
    assert rules == {
        "mpijobs": {"get", "create", "patch", "delete"},
        "pods": {"get", "list"},
        "pods/exec": {"create", "get"},
        "pods/log": {"get"},
        "events": {"list"},
    }


def test_a_pod_spec_gives_the_worker_its_claims() -> None:
    given = json.dumps({"resourceClaims": [{"name": "nics", "resourceClaimTemplateName": "ib"}]})
    job = MpiJob("b", "image", 2, 8, pod=given)
    spec = json.loads(mpijob.manifest(job))["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert spec["resourceClaims"] == [{"name": "nics", "resourceClaimTemplateName": "ib"}]
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "nics"}]
    assert "podAntiAffinity" in spec["affinity"]


@pytest.mark.parametrize("text", ["containers: []", "- a", "nodeSelecter: {}"])
def test_a_pod_spec_with_anything_else_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.yaml").write_text(text)
    words = [
        "run",
        "quick",
        "--launcher",
        "mpijob",
        "--image",
        "i",
        "--node-count",
        "2",
        "--dry-run",
    ]
    assert cli.main([*words, "--pod-spec", str(tmp_path / "pod.yaml")]) == 2
    assert "--pod-spec" in capsys.readouterr().err


def with_own_busbw(script: Path, folder: Path) -> Path:
    """The script, with the busbw of these tests in place of the installed one."""
    copy = folder / script.name
    text = script.read_text()
    assert "PATH=/opt/busbw/bin:$PATH" in text
    copy.write_text(text.replace("/opt/busbw/bin", str(BUSBW.parent)))
    copy.chmod(0o755)
    return copy


def test_the_monitor_of_node_problem_detector_answers_in_its_terms(tmp_path: Path) -> None:
    config = json.loads((EXAMPLES / "npd/busbw-monitor.json").read_text())
    (condition,), (rule,) = config["conditions"], config["rules"]
    assert config["plugin"] == "custom"
    assert (rule["type"], rule["condition"]) == ("permanent", condition["type"])
    assert Path(rule["path"]).name == "busbw.sh"
    script = with_own_busbw(EXAMPLES / "npd/busbw.sh", tmp_path)
    done = ran(script, env={**os.environ, "BUSBW_PROFILE": "infiniband"})
    # No GPU here, or nothing that could tell.
    assert done.returncode in (1, 2), done
    (line,) = done.stdout.splitlines()
    assert line.startswith("busbw: ")
    assert len(line) <= config["pluginConfig"]["max_output_length"]


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze: apt-get install systemd")
    for unit in (EXAMPLES / "systemd").iterdir():
        text = unit.read_text().replace("/opt/busbw/bin/busbw", str(BUSBW))
        (tmp_path / unit.name).write_text(text)
    units = sorted(tmp_path.iterdir())
    done = ran("systemd-analyze", "verify", "--man=no", *units)
    mine = [line for line in done.stderr.splitlines() if "busbw" in line]
    assert (done.returncode, mine) == (0, []), done.stderr
    broken = tmp_path / "busbw-nightly.timer"
    broken.write_text(broken.read_text().replace("02:00:00", "25:00:00"))
    assert "25:00:00" in ran("systemd-analyze", "verify", "--man=no", *units).stderr


def test_the_unit_runs_a_command_that_busbw_takes() -> None:
    text = (EXAMPLES / "systemd/busbw-nightly.service").read_text()
    (line,) = re.findall(r"^ExecStart=\S+/busbw (.*)$", text, re.MULTILINE)
    assert cli.build_parser().parse_args(line.split()).on_fail == "drain"


@pytest.mark.parametrize("name", ["systemd/busbw-nightly.service", "slurm/weekly.sbatch"])
def test_what_runs_by_itself_says_where_nccl_tests_is(name: str) -> None:
    """Without it every night ends with exit status 2."""
    text = (EXAMPLES / name).read_text()
    assert re.search(r"^(?:export |Environment=)BUSBW_NCCL_TESTS=\S*/opt/", text, re.MULTILINE)


@pytest.mark.long
def test_the_role_installs_busbw_and_the_units_and_changes_nothing_the_second_time(
    tmp_path: Path,
) -> None:
    environment = downloaded("ansible", "ansible-core==2.19.14")
    wheel = ran(
        *(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"),
        *("-w", tmp_path, ROOT),
    )
    assert wheel.returncode == 0, wheel.stderr
    (package,) = tmp_path.glob("busbw-*.whl")
    variables = {
        "busbw_package": str(package),
        "busbw_home": str(tmp_path / "opt"),
        # Its own files alone: no index is asked.
        "busbw_pip_args": "--no-deps --no-index",
        "busbw_inventory": str(ROOT / "inventories/cluster.yaml"),
        "busbw_inventory_path": str(tmp_path / "etc/cluster.yaml"),
        "busbw_nightly": True,
        "busbw_units": str(tmp_path),
        "busbw_start": False,
        "ansible_python_interpreter": sys.executable,
    }
    words = (sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local")
    words = (*words, "-e", json.dumps(variables), str(EXAMPLES / "ansible/site.yml"))
    environment |= {"HOME": str(tmp_path), "ANSIBLE_LOCALHOST_WARNING": "false"}
    first = ran(*words, env=environment)
    assert first.returncode == 0, first.stdout + first.stderr
    assert (tmp_path / "etc/cluster.yaml").exists()
    assert (tmp_path / "busbw-nightly.timer").exists()
    assert ran(tmp_path / "opt/bin/busbw", "--version").stdout.startswith("busbw ")
    again = ran(*words, env=environment)
    assert re.search(r"changed=0 .*failed=0", again.stdout), again.stdout
