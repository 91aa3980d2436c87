"""A site's own profile: a file that extends a shipped one, given by -p or beside the inventory, under
the same contract."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from busbw import cli
from busbw.errors import PlaybookError
from busbw.fabrics import profiles

MINE = """\
inherits: rocev2
env:
  - {name: NCCL_IB_TC, value: "106", why: DSCP 26 is our lossless class, source: our network team}
  - {name: NCCL_NET, value: null, why: our plugin has a name of its own, source: our network team}
  - {name: NCCL_PROTO, value: LL128, why: it was faster once, source: our network team}
setup: {path: /opt/site/nccl-env.sh, why: paths of our plugin, source: our network team, optional: false}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE)
    return path


def dry_run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    argv = ["run", "quick", "--nccl-tests", "/opt/nt", "--dry-run", *words]
    assert cli.main(argv) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_a_file_extends_a_profile_and_every_value_names_it(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = dry_run(capsys, "-w", "n[1-2]", "--ranks-per-node", "8", "-p", str(mine))

    digest = hashlib.sha256(MINE.encode()).hexdigest()[:12]
    assert f"profile rocev2 extended by {mine} (SHA-256 {digest})" in text
    assert f"# NCCL_IB_TC=106  from {mine}: DSCP 26 is our lossless class [our network" in text
    assert f"# NCCL_NET is unset  from {mine}: our plugin has a name of its own" in text
    assert "# each rank sources /opt/site/nccl-env.sh, required on every node" in text
    assert "-x NCCL_IB_TC=106" in text
    assert "-x NCCL_NET=" not in text
    assert "-x NCCL_DEBUG=WARN" in text, "what the profile and its parents set stays"


def test_a_value_of_a_site_that_does_harm_is_cautioned(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = dry_run(capsys, "-w", "n[1-2]", "--ranks-per-node", "8", "-p", str(mine))
    assert f"# caution: NCCL_PROTO=LL128 ({mine}): forcing LL128" in text


def test_an_inventory_names_a_file_beside_it(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.yaml").write_text(
        'nodes: ["n[1-2]"]\ndefaults: {gpus: 8}\nfabric: ./mine.yaml\n'
    )
    text = dry_run(capsys, "-i", str(tmp_path / "cluster.yaml"))
    assert f"extended by {mine}" in text


def test_the_limits_and_the_proof_are_those_of_the_profile_that_it_extends(mine: Path) -> None:
    profile, shipped = profiles.load(str(mine)), profiles.load("rocev2")
    assert profile.name == "rocev2"
    assert (profile.carrier, profile.must_see, profile.checks, profile.title) == (
        shipped.carrier,
        shipped.must_see,
        shipped.checks,
        shipped.title,
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("env: []\n", "inherits must name the profile that it extends"),
        ("inherits: common\n", "inherits must name the profile that it extends"),
        (
            "inherits: rocev2\nenv:\n  - {name: NCCL_IB_TC, value: '106'}\n",
            "mine.yaml:3:5: missing key 'why'",
        ),
        (
            "inherits: rocev2\nenv:\n  - {name: NCCL_IB_TC, value: '1', why: w, source: nobody}\n",
            "unknown source 'nobody'",
        ),
    ],
)
def test_a_file_that_breaks_the_contract_is_refused(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(PlaybookError) as caught:
        profiles.load(str(path))
    assert what in caught.value.what


def test_a_file_that_is_not_there_is_named_with_the_known_profiles(tmp_path: Path) -> None:
    with pytest.raises(PlaybookError) as caught:
        profiles.load(str(tmp_path / "none.yaml"))
    assert "cannot be read (No such file or directory)" in caught.value.what
    assert "infiniband" in caught.value.next_step


def test_a_dry_run_names_what_may_help_and_is_not_set(capsys: pytest.CaptureFixture[str]) -> None:
    text = dry_run(capsys, "-w", "n[1-2]", "--ranks-per-node", "8", "-p", "rocev2")
    assert "# may help, not set: NCCL_IB_QPS_PER_CONNECTION=2, 4 or 8: ECMP or LAG" in text
    assert "# may help, not set: NCCL_IB_TC=" in text
    own = ("--env", "NCCL_IB_TC=106", "-p", "rocev2", "--ranks-per-node", "8")
    assert "# may help, not set: NCCL_IB_TC=" not in dry_run(capsys, "-w", "n[1-2]", *own)
