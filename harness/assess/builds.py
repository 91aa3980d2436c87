"""What was built against what ran: the binaries on the nodes, and the versions that they printed
themselves."""

from __future__ import annotations

from busbw.assess.launches import Launch
from busbw.building.recipe import BuildOutcome
from busbw.model import Confidence, Evidence, Finding, Status
from busbw.parsers.findings.catalogue import filled

_ARTEFACT = "raw/build.json"


def findings(
    build: BuildOutcome | None, launches: tuple[Launch, ...], *, emulated: bool
) -> tuple[Finding, ...]:
    """Everything that is wrong with the build. A version that another binary would print means that
    this one was not measured.

    `emulated` = what stands in for NCCL says the version of the header, so that it proves nothing.
    """
    if build is None:
        return ()
    findings = [
        _finding("build-differs", problem, Evidence(_ARTEFACT, None, problem))
        for problem in build.problems
    ]
    linked = {each.nccl for each in build.builds} - {None}
    for name, built, printed in (
        ("nccl-tests", {build.version} - {None}, _printed(launches, "tests_version")),
        ("NCCL", set() if emulated else linked, _printed(launches, "nccl_version")),
    ):
        for version, artefact in printed.items():
            if built and version not in built:
                title = (
                    f"{name} {version} was measured, and {' and '.join(sorted(map(str, built)))}"
                    " was built"
                )
                findings.append(
                    _finding(
                        "build-not-measured", title, Evidence(artefact, None, f"{name} {version}")
                    )
                )
    return tuple(findings)


def _printed(launches: tuple[Launch, ...], name: str) -> dict[str, str]:
    """Version → the first output that says it."""
    versions: dict[str, str] = {}
    for launch in launches:
        for result in launch.results:
            # NCCL adds what it was compiled with: 2.27.5+cuda12.9.
            version = str(getattr(result, name) or "").partition("+")[0]
            if version:
                versions.setdefault(
                    version,
                    launch.artefact.stdout or f"raw/cases/{launch.artefact.case.id}/outcome.json",
                )
    return versions


def _finding(name: str, title: str, evidence: Evidence) -> Finding:
    return filled(
        Finding(
            id=name,
            status=Status.UNKNOWN,
            title=title,
            where=(),
            evidence=(evidence,),
            confidence=Confidence.CERTAIN,
        )
    )
