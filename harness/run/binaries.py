"""Which benchmark a run measures with: what `--nccl-tests` names, or the payload that busbw brings."""

from __future__ import annotations

from importlib import resources

from busbw.building import recipe, sources
from busbw.building.recipe import Benchmark
from busbw.errors import UsageError
from busbw.store.plan import RunPlan
from busbw.store.run_directory import RunDir


def benchmark(nccl_tests: str | None, plan: RunPlan, *, fetch: bool = True) -> Benchmark:
    """Where the binaries come from: `--nccl-tests`, else the host-memory payload where the playbook
    asks for it. `fetch` = False asks no address.

    Raises:
        UsageError: the playbook wants nccl-tests and none was given, or what was given is not
        nccl-tests.
        BuildError: the address does not give it.
    """
    if nccl_tests:
        payload = sources.take(nccl_tests, fetch=fetch)
        # Where no GPU is, what stands in for CUDA's runtime and NCCL is built beside it.
        return (
            sources.with_files(payload, _packaged("shim", "busbw-shim/"))
            if payload.cuda and plan.cluster.emulated
            else payload
        )
    if plan.playbook.payload == "lab":
        return Benchmark(recipe.archive(_packaged("payload", "")))
    raise UsageError(
        f"playbook {plan.playbook.name} measures with nccl-tests, and none was given",
        seen="no --nccl-tests",
        next_step=(
            "--nccl-tests PATH, or BUSBW_NCCL_TESTS in the environment: its source folder or archive"
            " here, or an absolute folder of binaries that is on every node"
        ),
    )


def _packaged(folder: str, below: str) -> dict[str, bytes]:
    return {
        f"{below}{entry.name}": entry.read_bytes()
        for entry in (resources.files("busbw.lab") / folder).iterdir()
        if entry.is_file()
    }


def begun_with(run: RunDir, nccl_tests: str | None, plan: RunPlan) -> Benchmark:
    """What a run that goes on measures with: what it was begun with.

    Raises:
        UsageError: --nccl-tests names something else.
    """
    first = sources.kept(run)
    if first is None:
        payload = benchmark(nccl_tests, plan)
        sources.keep(run, payload)
        return payload
    if nccl_tests and nccl_tests != first.origin:
        payload = benchmark(nccl_tests, plan)
        if (payload.sources, payload.directory) != (first.sources, first.directory):
            raise UsageError(
                f"--nccl-tests {nccl_tests} is not what {run.run_id} was begun with",
                seen=f"begun with {first.origin or 'the host-memory payload'}",
                next_step=(
                    "--resume without --nccl-tests; what is measured with another build is"
                    " another run"
                ),
            )
    return first


def notes(payload: Benchmark) -> list[str]:
    """Which nccl-tests was taken, with what pins it."""
    if payload.sources is None or not payload.origin:
        return []
    pins = [
        f"{name} {value}"
        for name, value in (("commit", payload.commit), ("SHA-256", payload.sha256))
        if value
    ]
    return [
        f"nccl-tests {payload.version or 'of an unknown version'} from {payload.origin}"
        + (f" ({', '.join(pins)})" if pins else "")
    ]
