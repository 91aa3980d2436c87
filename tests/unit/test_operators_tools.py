"""What an operator pastes at night: states of services, nodes, jobs, sensors and switch ports. Composed
after each tool's own form. Both commands call a bad state bad, and the same text without it good."""

from __future__ import annotations

from pathlib import Path

import pytest
from format_texts.pastes import PASTES

from busbw.cli import main


def statuses(text: str, folder: Path) -> tuple[int, int]:
    """Exit statuses of `busbw read` and of `busbw why`."""
    path = folder / "paste.txt"
    path.write_text(text)
    return main(["read", str(path)]), main(["why", str(path)])


@pytest.mark.parametrize("name", PASTES)
def test_a_bad_state_is_bad_to_read_and_never_passes_why(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paste = PASTES[name]
    assert paste.bad in paste.text
    read, why = statuses(paste.text, tmp_path)
    assert (read, why in (1, 3)) == (1, True), capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(PASTES.keys() - {"coredumpctl"}))
def test_the_same_text_without_it_is_good(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paste = PASTES[name]
    assert statuses(paste.text.replace(paste.bad, paste.good), tmp_path) == (0, 0), (
        capsys.readouterr().out
    )


def test_the_only_port_at_a_lower_rate_than_its_like_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def port(number: int, rate: int) -> str:
        return (
            f"CA 'mlx5_{number}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n"
            f"\t\tRate: {rate}\n\t\tLink layer: InfiniBand\n"
        )

    path = tmp_path / "ibstat.txt"
    path.write_text("".join(port(number, 400) for number in range(7)) + port(7, 200))
    assert main(["why", str(path)]) == 1
    out = capsys.readouterr().out
    assert "ib-rate-degraded" in out
    assert "mlx5_7" in out
    path.write_text("".join(port(number, 400) for number in range(8)))
    assert main(["why", str(path)]) == 0
