"""Pods as nodes: every command through `kubectl exec`. The pod is the node's name up to its first
dot; what follows is the job's service."""

from __future__ import annotations

import shlex

from busbw.model import Command, Node, Unreachable
from busbw.transport import Session
from busbw.transport.inside import inside
from busbw.transport.local import LocalTransport

NAMESPACE, CONTEXT = "k8s-namespace", "k8s-context"
"""Labels of a node that say where its pod is; without them kubectl's own context and its namespace
count."""


def kubectl(namespace: str | None, context: str | None) -> tuple[str, ...]:
    """The words before every kubectl command.

    >>> kubectl("bench", None)
    ('kubectl', '--namespace=bench')
    """
    return (
        "kubectl",
        *((f"--context={context}",) if context else ()),
        *((f"--namespace={namespace}",) if namespace else ()),
    )


class KubectlTransport:
    """Sessions through the kubectl program, `--transport kubectl`."""

    name = "kubectl"

    def __init__(
        self, *, ssh_config: str | None = None, accept_new_host_keys: bool = False
    ) -> None:
        """Both are of ssh, and mean nothing here."""

    def connect(self, node: Node, timeout_s: float) -> Session | Unreachable:
        """Try a command in the pod within `timeout_s`."""
        labels = dict(node.labels)
        prefix = kubectl(labels.get(NAMESPACE), labels.get(CONTEXT))
        pod = (node.address or node.name).partition(".")[0]
        session = inside(LocalTransport(), (*prefix, "exec", "-i", pod, "--")).connect(
            node, timeout_s
        )
        if isinstance(session, Unreachable):
            return session
        tried = session.run(Command(("true",), timeout_s=timeout_s))
        if tried.ok:
            return session
        session.close()
        reason = (
            tried.problem or tried.err().strip() or f"exit status {tried.exit_status}"
        ).splitlines()[-1]
        return Unreachable(
            node.name,
            f"kubectl exec: {reason}",
            f"try it alone: {shlex.join((*prefix, 'exec', pod, '--', 'true'))}",
        )

    def close(self) -> None:
        """Nothing is shared between sessions."""


TRANSPORT = KubectlTransport
