"""The packages of a release: the wheel holds every file of the five folders and no test, the sdist
the whole checkout, and a missing or additional file is seen. `make release` also installs them."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
RELEASE = SimpleNamespace(**runpy.run_path(str(ROOT / "tests" / "release.py")))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git tracks or would, as they are now."""
    target = tmp_path_factory.mktemp("release") / "source"
    argv = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: what belongs to it is not known")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    copy = shutil.copytree(source, source.with_name("for-wheel"))
    return RELEASE.built(copy, "wheel", source.with_name("dist"))


@pytest.fixture(scope="module")
def sdist(source: Path) -> Path:
    copy = shutil.copytree(source, source.with_name("for-sdist"))
    return RELEASE.built(copy, "sdist", source.with_name("dist"))


def test_the_wheel_holds_the_five_folders_and_no_test(wheel: Path, source: Path) -> None:
    RELEASE.check_wheel(wheel, source)
    assert not [name for name in RELEASE.wheel_contents(wheel) if "test_" in name]


def test_the_sdist_holds_the_whole_checkout_with_tests_and_docs(sdist: Path, source: Path) -> None:
    RELEASE.check_sdist(sdist, source)


def test_a_missing_and_an_additional_file_are_seen(wheel: Path, sdist: Path, source: Path) -> None:
    more = shutil.copytree(source, source.with_name("more"))
    (more / "harness" / "new.yaml").touch()
    for check, package in ((RELEASE.check_wheel, wheel), (RELEASE.check_sdist, sdist)):
        with pytest.raises(RELEASE.Failed, match=r"lacks 1 files: .*new\.yaml"):
            check(package, more)
    (more / "harness" / "new.yaml").unlink()
    (more / "harness" / "units.py").unlink()
    with pytest.raises(RELEASE.Failed, match=r"has too many: 1 files: busbw/units\.py"):
        RELEASE.check_wheel(wheel, more)


def test_a_wheel_with_a_test_in_it_is_refused(wheel: Path, source: Path, tmp_path: Path) -> None:
    planted = Path(shutil.copy(wheel, tmp_path / wheel.name))
    with zipfile.ZipFile(planted, "a") as archive:
        archive.writestr("busbw/test_x.py", "")
    with pytest.raises(RELEASE.Failed, match=r"has too many: 1 files: busbw/test_x\.py"):
        RELEASE.check_wheel(planted, source)


@pytest.mark.long
def test_the_airgapped_tar_installs_without_an_index_and_a_changed_wheel_is_refused(
    tmp_path: Path,
) -> None:
    try:
        tar = RELEASE.airgapped(tmp_path)
    except RELEASE.Failed as error:
        pytest.skip(f"no package index: {str(error).splitlines()[0]}")
    with tarfile.open(tar) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / tar.stem
    env = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "PIP_NO_INDEX": "1"}
    argv = ["sh", str(folder / "install.sh"), str(tmp_path / "own")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stdout) == (0, f"busbw {RELEASE.VERSION}\n"), done.stderr
    RELEASE.check_installed(tmp_path / "own" / "bin", ROOT, tmp_path)
    wheel = next((folder / "wheels").glob("rich-*.whl"))
    wheel.write_bytes(wheel.read_bytes() + b"x")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    assert done.returncode != 0
    assert "rich-" in done.stderr + done.stdout


def test_the_container_file_copies_what_the_bundle_has_from_stages_that_there_are() -> None:
    text = (ROOT / "Containerfile").read_text()
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.M))
    assert set(re.findall(r"--from=(\S+)", text)) == stages == {"installed", "nccl-tests"}
    assert re.findall(r"^COPY (?!--from)(.*)$", text, re.M) == [". /bundle"]
    assert "sh /bundle/install.sh /opt/busbw" in text
    settable = set(re.findall(r"^ARG (\w+)", text, re.M))
    page = (ROOT / "docs" / "install.md").read_text()
    assert set(re.findall(r"--build-arg (\w+)=", page + text)) <= settable
