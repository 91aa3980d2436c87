"""The manifest of an MPIJob against the published definition, and what kubectl's answers mean. No
cluster is asked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.launch import mpijob
from busbw.launch.mpijob import MpiJob
from busbw.model import CommandResult
from busbw.run import kubernetes

SCHEMA = json.loads(
    (Path(__file__).parents[1] / "fixtures/kubernetes/mpijob-v2beta1.json").read_text()
)
JOB = MpiJob(
    "busbw-1a2b3c",
    "registry/nccl:1",
    4,
    8,
    "bench",
    (("rdma/ib", 8),),
    networks="net1@eth1",
    hugepages="4Gi",
    memory="512Gi",
)
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "quantity": (int, str),
}


def faults(value: Any, schema: Any, where: str = "") -> list[str]:
    """What of a JSON value the schema does not have: types, enums, required and unknown names."""
    kind = schema.get("type")
    if kind and not isinstance(value, TYPES[kind]):
        return [f"{where}: not {kind}"]
    problems = [f"{where}: {value!r}"] if "enum" in schema and value not in schema["enum"] else []
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        problems += [
            f"{where}: no {name}" for name in schema.get("required", ()) if name not in value
        ]
        for name, each in value.items():
            if name not in known and others is None:
                # The template's metadata is free in the definition.
                problems += (
                    [] if where.endswith("template.metadata") else [f"{where}.{name}: unknown"]
                )
            else:
                problems += faults(each, known.get(name, others), f"{where}.{name}")
    if isinstance(value, list):
        problems += [
            fault
            for n, each in enumerate(value)
            for fault in faults(each, schema.get("items", {}), f"{where}[{n}]")
        ]
    return problems


@pytest.mark.parametrize("job", [JOB, MpiJob("b", "image", 1, 0)], ids=["all options", "no option"])
def test_the_manifest_has_only_what_the_definition_knows(job: MpiJob) -> None:
    assert faults(json.loads(mpijob.manifest(job)), SCHEMA) == []


def test_the_check_of_the_manifest_can_fail() -> None:
    wrong = json.loads(mpijob.manifest(JOB))
    wrong["spec"]["slotsPerWorker"] = "8"
    wrong["spec"]["mpiImplementation"] = "MVAPICH"
    wrong["spec"]["worker"] = {}
    del wrong["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["name"]
    assert sorted(faults(wrong, SCHEMA)) == [
        ".spec.mpiImplementation: 'MVAPICH'",
        ".spec.mpiReplicaSpecs.Worker.template.spec.containers[0]: no name",
        ".spec.slotsPerWorker: not integer",
        ".spec.worker: unknown",
    ]


def test_a_worker_may_lock_memory_and_has_its_adapters_and_pages() -> None:
    worker = json.loads(mpijob.manifest(JOB))["spec"]["mpiReplicaSpecs"]["Worker"]
    (container,) = worker["template"]["spec"]["containers"]
    assert worker["replicas"] == 4
    assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert container["resources"]["limits"] == {
        "nvidia.com/gpu": "8",
        "rdma/ib": "8",
        "hugepages-2Mi": "4Gi",
        "memory": "512Gi",
    }
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert "command" not in container, "the operator starts the sshd"
    assert worker["template"]["spec"]["volumes"][0] == {
        "name": "shm",
        "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"},
    }
    assert worker["template"]["metadata"]["annotations"] == {
        "k8s.v1.cni.cncf.io/networks": "net1@eth1"
    }


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"name": "B_1"}, "cannot name an MPIJob"),
        ({"image": "a b"}, "is no image"),
        ({"workers": 0}, "0 workers"),
        ({"shm": "lots"}, "'lots' is no quantity"),
        ({"rdma": (("ib", 8),)}, "ib=8 is no resource"),
        ({"memory": None}, "hugepages without memory"),
    ],
)
def test_what_cannot_be_is_refused_before_kubectl_is_asked(
    changes: dict[str, Any], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        mpijob.manifest(MpiJob(**{name: getattr(JOB, name) for name in JOB.__slots__} | changes))


def test_a_pod_says_what_it_waits_for() -> None:
    pulled = {"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
    unscheduled = [{"type": "PodScheduled", "status": "False", "message": "0/4 nodes have rdma/ib"}]
    items = [
        {
            "metadata": {"name": "a"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        },
        {"metadata": {"name": "b"}, "status": {"phase": "Pending", "containerStatuses": [pulled]}},
        {"metadata": {"name": "c"}, "status": {"phase": "Pending", "conditions": unscheduled}},
        {"metadata": {"name": "d"}, "status": {"phase": "Pending"}},
    ]
    listed = CommandResult("here", ("kubectl",), 0, json.dumps({"items": items}).encode(), b"", 0.1)
    assert kubernetes._states(listed) == {
        "a": "",
        "b": "ErrImagePull: not found",
        "c": "0/4 nodes have rdma/ib",
        "d": "Pending",
    }
    assert (
        "not understood"
        in kubernetes._states(CommandResult("here", (), 0, b"{}", b"", 0.1))["kubectl get pods"]
    )


DEEP = b"[" * 200_000


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"items": 3}', b"\xff", b"9" * 5000, DEEP])
def test_a_list_of_pods_that_cannot_be_read_is_reported_and_ends_nothing(text: bytes) -> None:
    (said,) = kubernetes._states(CommandResult("here", (), 0, text, b"", 0.1)).items()
    assert said[0] == "kubectl get pods"
    assert said[1].startswith("not understood: ")
    assert not kubernetes._has_ended(CommandResult("here", (), 0, text, b"", 0.1))


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (b"7", "not understood"),
        (b"{}", "not understood"),
        (b'{"metadata": {"name": "b"}, "status": 7}', "unknown"),
        (b'{"metadata": {"name": "b"}, "status": {"conditions": {"a": 1}}}', "unknown"),
        (b'{"metadata": {"name": "b"}, "status": {"conditions": [7, null]}}', "unknown"),
        (
            b'{"metadata": {"name": "b"}, "status": {"containerStatuses": [{"state": 7}]}}',
            "unknown",
        ),
    ],
)
def test_an_odd_pod_is_no_ready_one_and_takes_no_other_its_state(odd: bytes, said: str) -> None:
    good = b'{"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}'
    listed = CommandResult("here", (), 0, b'{"items": [' + odd + b"," + good + b"]}", b"", 0.1)
    states = kubernetes._states(listed)
    assert states.pop("a") == ""
    assert list(states.values()) == [said]


@pytest.mark.parametrize("state", ["Succeeded", "Failed"])
def test_a_job_that_ended_is_known_among_odd_conditions(state: str) -> None:
    conditions = [7, None, {"type": "Created"}, {"type": state, "status": "True"}]
    text = json.dumps({"status": {"conditions": conditions}}).encode()
    assert kubernetes._has_ended(CommandResult("here", (), 0, text, b"", 0.1))


def test_the_manifest_against_the_whole_published_definition() -> None:
    path = os.environ.get("MPIJOB_CRD", "")
    if not path:
        pytest.skip("MPIJOB_CRD is not the operator's kubeflow.org_mpijobs.yaml")
    import yaml

    versions = yaml.safe_load(Path(path).read_text())["spec"]["versions"]
    (whole,) = [each["schema"]["openAPIV3Schema"] for each in versions if each["name"] == "v2beta1"]
    spec = json.loads(mpijob.manifest(JOB))["spec"]
    problems = faults(spec, whole["properties"]["spec"])
    assert problems == []
