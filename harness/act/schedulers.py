"""Who places jobs on nodes, and how a node is taken out there and put back: Slurm, Kubernetes, or a
command of the user's. Written against Slurm 22.05 to 24.05 and kubectl 1.20 to 1.32.

The programs run on this machine, with the rights of this account.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from busbw.errors import MeasureError
from busbw.model import Cluster
from busbw.transport.kubectl import CONTEXT, NAMESPACE, KubectlTransport, kubectl

MARK = "busbw: "
"""Every reason that busbw gives begins so."""
ANNOTATION = "busbw/reason"
"""Of a cordoned Kubernetes node, which has no reason of its own."""
_LIMIT_S = 60
_OUT = ("drain", "down", "fail", "maint")
"""What Slurm's states of a node contain that takes no job."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a scheduler says of a node."""

    place: str
    """Its name there."""
    in_service: bool
    reason: str
    """Why it is not; empty = it is, or nobody gave a reason."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command for this machine."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """As a person would type it."""
        settings = "".join(f"{name}={shlex.quote(value)} " for name, value in self.env)
        return settings + shlex.join(self.argv)


class Scheduler(Protocol):
    """One way of taking nodes out of service."""

    @property
    def action(self) -> str:
        """As `--on-fail` names it."""

    @property
    def program(self) -> str:
        """What has to be on this machine's PATH."""

    def standings(self, cluster: Cluster, transport: str) -> dict[str, Standing]:
        """What the scheduler says of the nodes that it knows, by their name in the inventory.

        Raises:
            MeasureError: it does not answer.
        """

    def out(self, place: str, reason: str) -> tuple[Step, ...]:
        """Take a node out."""

    def back(self, place: str, reason: str) -> tuple[Step, ...]:
        """Put it back."""


class Slurm:
    """`--on-fail drain`."""

    action, program = "drain", "scontrol"

    def standings(self, cluster: Cluster, transport: str) -> dict[str, Standing]:
        """From sinfo; a node of several partitions is listed in each."""
        text = performed(Step(("sinfo", "--noheader", "--Node", "--format=%N|%T|%E")))
        known = {}
        for line in text.splitlines():
            name, _, rest = line.partition("|")
            state, _, reason = rest.partition("|")
            in_service = not any(word in state.lower() for word in _OUT)
            known[name] = Standing(name, in_service, "" if reason == "none" else reason.strip())
        return {
            node.name: known[name]
            for node in cluster.nodes
            for name in (node.name, node.name.partition(".")[0])
            if name in known
        }

    def out(self, place: str, reason: str) -> tuple[Step, ...]:
        """Jobs that run there go on; no other starts."""
        update = ("scontrol", "update", f"nodename={place}", "state=drain", f"reason={reason}")
        return (Step(update),)

    def back(self, place: str, reason: str) -> tuple[Step, ...]:
        """Slurm forgets the reason with it."""
        return (Step(("scontrol", "update", f"nodename={place}", "state=resume")),)


class Kubernetes:
    """`--on-fail cordon`."""

    action, program = "cordon", "kubectl"

    def standings(self, cluster: Cluster, transport: str) -> dict[str, Standing]:
        """Of the nodes; where busbw's nodes are pods, of the nodes that these run on."""
        places = {
            node.name: (
                _node_of_pod(dict(node.labels), node.address or node.name)
                if transport == KubectlTransport.name
                else node.name
            )
            for node in cluster.nodes
        }
        every = json.loads(performed(Step((*self._kubectl(cluster), "get", "nodes", "-o", "json"))))
        known = {}
        for each in every.get("items", ()):
            name = each["metadata"]["name"]
            reason = (each["metadata"].get("annotations") or {}).get(ANNOTATION, "")
            known[name] = Standing(name, not each["spec"].get("unschedulable", False), reason)
        return {node: known[place] for node, place in places.items() if place in known}

    @staticmethod
    def _kubectl(cluster: Cluster) -> tuple[str, ...]:
        context = dict(cluster.nodes[0].labels).get(CONTEXT) if cluster.nodes else None
        return kubectl(None, context)

    def out(self, place: str, reason: str) -> tuple[Step, ...]:
        """The reason first: a cordoned node without one would be somebody else's."""
        return (
            Step(("kubectl", "annotate", "--overwrite", "node", place, f"{ANNOTATION}={reason}")),
            Step(("kubectl", "cordon", place)),
        )

    def back(self, place: str, reason: str) -> tuple[Step, ...]:
        """The reason goes last."""
        return (
            Step(("kubectl", "uncordon", place)),
            Step(("kubectl", "annotate", "node", place, f"{ANNOTATION}-")),
        )


@dataclass(frozen=True, slots=True)
class Program:
    """`--on-fail COMMAND --undo COMMAND`: shell commands of the user's, once for each node. Name
    and reason come in variables, for a reason may hold a node's own words."""

    action: str
    undo: str
    program: str = "sh"

    def standings(self, cluster: Cluster, transport: str) -> dict[str, Standing]:
        """Nobody says: every node counts as in service."""
        return {node.name: Standing(node.name, True, "") for node in cluster.nodes}

    def out(self, place: str, reason: str) -> tuple[Step, ...]:
        """The command of `--on-fail`."""
        return (Step(("sh", "-c", self.action), (("NODE", place), ("REASON", reason))),)

    def back(self, place: str, reason: str) -> tuple[Step, ...]:
        """The command of `--undo`."""
        return (Step(("sh", "-c", self.undo), (("NODE", place), ("REASON", reason))),)


def scheduler(action: str, undo: str = "") -> Scheduler:
    """What `--on-fail` names: `drain`, `cordon`, or a command, with the one that undoes it."""
    for known in (Slurm(), Kubernetes()):
        if known.action == action:
            return known
    return Program(action, undo)


def performed(step: Step) -> str:
    """Standard output of a command.

    Raises:
        MeasureError: it could not be run, or failed.
    """
    env: Mapping[str, str] = {**os.environ, **dict(step.env)}
    try:
        done = subprocess.run(
            step.argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
            env=env,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(step, str(error)) from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise _failed(step, last[0] if last else f"exit status {done.returncode}")
    return done.stdout


def _failed(step: Step, seen: str) -> MeasureError:
    return MeasureError(f"{step.argv[0]} failed", seen=seen, next_step=f"by hand: {step.text}")


def _node_of_pod(labels: dict[str, str], pod: str) -> str:
    words = kubectl(labels.get(NAMESPACE), labels.get(CONTEXT))
    path = "jsonpath={.spec.nodeName}"
    return performed(Step((*words, "get", "pod", pod.partition(".")[0], "-o", path))).strip()
