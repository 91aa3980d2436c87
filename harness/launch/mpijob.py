"""An MPIJob of the MPI operator (`kubeflow.org/v2beta1`) whose pods busbw measures in: the
manifest, as text for `kubectl apply`.

The operator gives every worker an sshd, a key that opens the others, and a name in the job's
headless service. The launcher sleeps: busbw reaches the workers through `kubectl exec`, checks them
from inside, and starts mpirun on the first of them, as on any cluster.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass

from busbw.errors import UsageError
from busbw.launch import Launcher, LaunchRequest, mpirun
from busbw.model import Invocation
from busbw.parsers.logs.json_values import items, loaded, mapping, text_of

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?\Z")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([EPTGMk]i?|m)?\Z")
_RESOURCE = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9._-]+\Z")
GPU = "nvidia.com/gpu"
POD_KEYS = frozenset(
    (
        *("imagePullSecrets", "nodeSelector", "priorityClassName", "resourceClaims"),
        *("runtimeClassName", "schedulerName", "serviceAccountName", "tolerations"),
    )
)
"""Of a PodSpec (Kubernetes 1.32), what a cluster's owner decides: which nodes, and with which
rights. The rest is the measurement's."""


@dataclass(frozen=True, slots=True)
class MpiJob:
    """What is asked of the cluster."""

    name: str
    """Of the job; its pods are NAME-worker-0, …"""
    image: str
    """With Open MPI, an sshd, and nccl-tests or what builds it."""
    workers: int
    gpus: int
    """Per worker; 0 = none are asked for."""
    namespace: str | None = None
    """None = the context's own."""
    rdma: tuple[tuple[str, int], ...] = ()
    """Resources of a device plugin and how many per worker: `(("rdma/ib", 8),)`."""
    networks: str | None = None
    """Value of the annotation k8s.v1.cni.cncf.io/networks, for secondary interfaces (RoCE); None =
    none."""
    hugepages: str | None = None
    """Of 2 MiB, per worker: `4Gi`; None = none."""
    shm: str = "64Gi"
    """Size of /dev/shm: NCCL's ranks of one node share memory there, and the container default of
    64 MiB is too small."""
    memory: str | None = None
    """Per worker; hugepages need it beside them."""
    pod: str = ""
    """More of each worker's pod, as JSON: keys of `POD_KEYS`; empty = nothing."""
    deadline_s: int = 14400
    """After so long the operator ends the job, whatever became of busbw."""


def manifest(job: MpiJob) -> str:
    """The manifest as JSON, which is YAML too.

    Raises:
        UsageError: a name, a quantity or a count cannot be one.
    """
    _check(job)
    annotations = {"k8s.v1.cni.cncf.io/networks": job.networks} if job.networks else {}
    metadata = {"name": job.name, "labels": {"app.kubernetes.io/managed-by": "busbw"}}
    worker = {"metadata": {"annotations": annotations}} if annotations else {}
    tree = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": metadata | ({"namespace": job.namespace} if job.namespace else {}),
        "spec": {
            "slotsPerWorker": max(job.gpus, 1),
            "mpiImplementation": "OpenMPI",
            # The key is where ssh looks for root's, with the rights that ssh wants.
            "sshAuthMountPath": "/root/.ssh",
            "runPolicy": {
                "cleanPodPolicy": "All",
                "backoffLimit": 0,
                "activeDeadlineSeconds": job.deadline_s,
            },
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "restartPolicy": "Never",
                    "template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "launcher",
                                    "image": job.image,
                                    "command": ["sleep", "infinity"],
                                }
                            ]
                        }
                    },
                },
                "Worker": {
                    "replicas": job.workers,
                    "restartPolicy": "Never",
                    "template": worker | {"spec": _pod(job)},
                },
            },
        },
    }
    return json.dumps(tree, indent=2) + "\n"


def pods(job: MpiJob) -> tuple[str, ...]:
    """The workers' pods in the order of their ranks.

    >>> pods(MpiJob("b", "image", 2, 8))
    ('b-worker-0', 'b-worker-1')
    """
    return tuple(f"{job.name}-worker-{number}" for number in range(job.workers))


def _pod(job: MpiJob) -> dict[str, object]:
    """A worker: no command, so that the operator starts the sshd."""
    resources = {GPU: str(job.gpus)} if job.gpus else {}
    resources |= {name: str(count) for name, count in job.rdma}
    resources |= {"hugepages-2Mi": job.hugepages} if job.hugepages else {}
    resources |= {"memory": job.memory} if job.memory else {}
    volumes: list[dict[str, object]] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": job.shm}}
    ]
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}]
    if job.hugepages:
        volumes.append({"name": "hugepages", "emptyDir": {"medium": "HugePages-2Mi"}})
        mounts.append({"name": "hugepages", "mountPath": "/hugepages"})
    container = {
        "name": "worker",
        "image": job.image,
        # Registering memory with an adapter locks it.
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "resources": {"limits": resources, "requests": resources},
        "volumeMounts": mounts,
    }
    workers = {
        "training.kubeflow.org/job-name": job.name,
        "training.kubeflow.org/job-role": "worker",
    }
    spread = {"labelSelector": {"matchLabels": workers}, "topologyKey": "kubernetes.io/hostname"}
    # One worker per node: two on one would measure that node's inside.
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [spread]}}
    given = mapping(loaded(job.pod)) if job.pod else {}
    claims = [{"name": text_of(mapping(each), "name")} for each in items(given, "resourceClaims")]
    if claims:
        container["resources"] = {"limits": resources, "requests": resources, "claims": claims}
    return {**given, "containers": [container], "volumes": volumes, "affinity": affinity}


def _check(job: MpiJob) -> None:
    wrong = [
        (
            not _NAME.match(job.name),
            f"{job.name!r} cannot name an MPIJob",
            "lower-case letters, digits and dashes, at most 42",
        ),
        (
            not job.image or bool(re.search(r"\s", job.image)),
            f"{job.image!r} is no image",
            "REGISTRY/NAME:TAG",
        ),
        (not 1 <= job.workers <= 10_000, f"{job.workers} workers", "1 to 10,000"),
        (not 0 <= job.gpus <= 64, f"{job.gpus} GPUs per worker", "0 to 64"),
        (
            bool(job.hugepages) and not job.memory,
            "hugepages without memory",
            "Kubernetes wants memory beside hugepages: name both",
        ),
    ]
    sizes = [text for text in (job.hugepages, job.shm, job.memory) if text is not None]
    wrong += [
        (not _QUANTITY.match(text), f"{text!r} is no quantity", "such as 64Gi") for text in sizes
    ]
    wrong += [
        (
            not _RESOURCE.match(name) or count < 1,
            f"{name}={count} is no resource",
            "such as rdma/ib=8",
        )
        for name, count in job.rdma
    ]
    for bad, what, expected in wrong:
        if bad:
            raise UsageError(what, seen=f"expected {expected}", next_step="busbw run --help")


def build(request: LaunchRequest) -> Invocation:
    """As mpirun. The pods' host keys are as old as the pods, so each is taken when first met.

    Raises:
        UsageError: as mpirun.
    """
    agent = request.ssh_agent.replace(
        "StrictHostKeyChecking=yes", "StrictHostKeyChecking=accept-new"
    )
    return mpirun.build(dataclasses.replace(request, ssh_agent=agent))


LAUNCHER = Launcher(
    "mpijob", "Open MPI among the pods of an MPIJob (Kubernetes)", build, creates_nodes=True
)
