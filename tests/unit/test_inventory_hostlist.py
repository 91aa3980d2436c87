"""Host lists: expanded, folded, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.errors import InventoryError
from busbw.inventory import expand, fold


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-[001-003,006]", ("gpu-001", "gpu-002", "gpu-003", "gpu-006")),
        ("r[1-2]n[09-10]", ("r1n09", "r1n10", "r2n09", "r2n10")),
        ("n[0-10/5]", ("n0", "n5", "n10")),
        (
            "n[1-2]-ib[0-1].example.com",
            (
                "n1-ib0.example.com",
                "n1-ib1.example.com",
                "n2-ib0.example.com",
                "n2-ib1.example.com",
            ),
        ),
        ("10.0.0.[1-2]", ("10.0.0.1", "10.0.0.2")),
        ("b, a\tc,,d", ("b", "a", "c", "d")),
        ("n2,n[1-3],n2", ("n2", "n1", "n3")),
        ("n1,n01,n001", ("n1", "n01", "n001")),
    ],
)
def test_a_host_list_is_expanded_in_the_order_written_each_name_once(
    text: str, names: tuple[str, ...]
) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "what", "next_step"),
    [
        ("", "the host list is empty", "name nodes as in gpu-[001-016]"),
        (" , ", "the host list is empty", "name nodes as in gpu-[001-016]"),
        ("n[1-3", "host list 'n[1-3': ']' is missing", "write 'n[1-3]'"),
        ("n]1", "host list 'n]1': illegal closing bracket: n]1", ""),
        ("n[]", "host list 'n[]': '' is not a number or a range such as 1-4", ""),
        ("n[a-c]", "host list 'n[a-c]': 'a-c' is not a number or a range such as 1-4", ""),
        ("n[5-1]", "host list 'n[5-1]': the range 5-1 runs backwards", "write 1-5"),
        ("n[001-", "host list 'n[001-': ']' is missing", "complete the range, as in gpu-[001-016]"),
        ("n[1-010]", "host list 'n[1-010]': bad range: padding length mismatch: 1-010", ""),
        ("gpu[01:32]", "host list 'gpu[01:32]': ':' is Ansible's range sign", "write gpu[01-32]"),
        (
            "n[1-4]!n2",
            "host list 'n[1-4]!n2': set operators are not read",
            "leave nodes out with -x",
        ),
        ("n*", "host list 'n*': wildcards are not read", "write a range such as gpu-[001-016]"),
        (
            "@rack1",
            "host list '@rack1': groups and user names are not read in a host list",
            "name the hosts; the login user goes into ssh_config or an inventory file",
        ),
        (
            "-oProxy",
            (
                "illegal node name '-oProxy': letters, digits, dot, dash and underscore only, none"
                " of dot and dash in front"
            ),
            "",
        ),
        (
            "..",
            (
                "illegal node name '..': letters, digits, dot, dash and underscore only, none of"
                " dot and dash in front"
            ),
            "",
        ),
        (
            "a..b",
            "illegal node name 'a..b': 1 to 63 characters between dots, 253 in all",
            "",
        ),
        (
            "a/b",
            (
                "illegal node name 'a/b': letters, digits, dot, dash and underscore only, none of"
                " dot and dash in front"
            ),
            "",
        ),
        (
            "$(reboot)",
            (
                "illegal node name '$(reboot)': letters, digits, dot, dash and underscore only,"
                " none of dot and dash in front"
            ),
            "",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(text: str, what: str, next_step: str) -> None:
    with pytest.raises(InventoryError) as caught:
        expand(text)
    assert (caught.value.what, caught.value.next_step) == (what, next_step)


@pytest.mark.parametrize(
    "text", ["n[1-1000000]", "n[1-9999999999999]", "n[1-999]m[1-999]", "n[1-60000],m[1-60000]"]
)
def test_a_list_beyond_the_cap_is_refused_before_it_is_expanded(text: str) -> None:
    with pytest.raises(InventoryError, match="has more than 100000 names"):
        expand(text)


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ((), ""),
        (("a",), "a"),
        (("gpu-003", "gpu-001", "gpu-002", "gpu-002"), "gpu-[001-003]"),
        (("login", "n1", "n2", "n4"), "login,n[1-2,4]"),
        (("r1n1", "r1n2", "r2n1", "r2n2"), "r[1-2]n[1-2]"),
        (("n1", "n2", "<script>", "a b"), "n[1-2],<script>,a b"),
    ],
)
def test_names_are_folded_sorted_and_each_once(names: tuple[str, ...], folded: str) -> None:
    assert fold(names) == folded


NAMES = st.from_regex(r"[a-z]{1,3}[0-9]{0,3}([.-][a-z]{0,2}[0-9]{1,4})?", fullmatch=True)


@given(st.sets(NAMES, min_size=1, max_size=30))
@settings(deadline=None)
def test_what_was_folded_expands_to_the_same_names(names: set[str]) -> None:
    assert set(expand(fold(names))) == names


@given(st.text(max_size=40))
@settings(deadline=None)
def test_any_text_is_names_or_an_inventory_error(text: str) -> None:
    try:
        names = expand(text)
    except InventoryError:
        return
    assert names
    assert all(name.isascii() and not name.startswith(("-", ".")) for name in names)
