"""A counter since boot is judged by its share of the packets; two outputs of a port by the rise."""

import pytest

from busbw.parsers import tools


def errors(text: str) -> tuple[str, ...]:
    return tuple(error for reading in tools.read(text) for error in reading.errors)


def ethtool(packets: int, crc: int, *, port: str = "") -> str:
    command = f"$ ethtool -S {port}\n" if port else ""
    return f"{command}NIC statistics:\n     rx_packets: {packets}\n     rx_crc_errors_phy: {crc}\n"


def perfquery(symbols: int, words: int) -> str:
    return (
        "# Port counters: Lid 5 port 1 (CapMask: 0x5A00)\n"
        f"SymbolErrorCounter:..............{symbols}\nPortXmitData:....................{words}\n"
    )


def test_a_small_share_since_boot_is_printed_and_no_error() -> None:
    (reading,) = tools.read(ethtool(10**10, 12))
    assert reading.errors == ()
    assert reading.lines == ("rx_crc_errors_phy 12 in 10000000000 packets since it began to count",)


def test_a_large_share_since_boot_is_an_error() -> None:
    assert errors(ethtool(10**7, 12)) == (
        "ethtool -S: rx_crc_errors_phy 12 in 10000000 packets since it began to count",
    )


@pytest.mark.parametrize("rise", [0, 5])
def test_of_two_outputs_of_a_port_only_the_rise_is_judged(rise: int) -> None:
    text = ethtool(10**6, 91233, port="eth0") + ethtool(2 * 10**6, 91233 + rise, port="eth0")
    assert len(errors(text)) == (1 if rise else 0)


def test_outputs_without_a_name_are_not_compared() -> None:
    assert errors(ethtool(10**10, 1) + ethtool(10**10 + 5, 9)) == ()


def test_outputs_of_two_ports_are_not_compared() -> None:
    assert errors(ethtool(10**10, 1, port="eth0") + ethtool(10**10 + 5, 9, port="eth1")) == ()


def test_a_counter_that_was_cleared_is_judged_by_itself() -> None:
    text = ethtool(10**10, 500, port="eth0") + ethtool(10**9, 3, port="eth0")
    assert errors(text) == ()


def test_a_count_without_packets_is_no_error_and_its_rise_is() -> None:
    one = "NIC statistics:\n     link_down_events_phy: 3\n"
    assert errors(one) == ()
    four = one.replace(": 3", ": 4")
    assert errors(f"$ ethtool -S eth0\n{one}$ ethtool -S eth0\n{four}") == (
        "ethtool -S: eth0: link_down_events_phy rose by 1 to 4",
    )


def test_words_sent_stand_for_packets() -> None:
    assert errors(perfquery(4120, 81231231))
    assert errors(perfquery(4, 10**12)) == ()
