"""The expression language of the catalogue."""

import pytest

from busbw.parsers.findings import expr


@pytest.mark.parametrize(
    ("text", "record", "expected"),
    [
        ("busbw < 200 and rails == 8", {"busbw": 150.0, "rails": 8.0}, True),
        ("busbw < 200 and rails == 8", {"busbw": 150.0, "rails": 4.0}, False),
        ("busbw < 200 and rails == 8", {"busbw": 150.0}, None),
        ("busbw < 200 and rails == 8", {"rails": 4.0}, False),
        ("state != ACTIVE", {"state": "active"}, False),
        ("index_type != RoCE v2", {"index_type": "IB/RoCE v1"}, True),
        ("count < expected", {"count": 7.0, "expected": 8.0}, True),
        ("fm_version != driver_version", {"fm_version": "550.54"}, None),
        (
            "fm_version != driver_version",
            {"fm_version": "550.54", "driver_version": "550.90"},
            True,
        ),
        (
            "same_leaf_ratio > 1.3*cross_leaf_ratio",
            {"same_leaf_ratio": 0.9, "cross_leaf_ratio": 0.6},
            True,
        ),
        (
            "same_leaf_ratio > 1.3*cross_leaf_ratio",
            {"same_leaf_ratio": 0.7, "cross_leaf_ratio": 0.6},
            False,
        ),
        ("stall == true", {"stall": True}, True),
        ("stall == true", {"stall": 1.0}, False),
        ("value == 1", {"value": "1"}, True),
        ("log_bytes_per_sec > 1e6", {"log_bytes_per_sec": 2e6}, True),
        ("mode > 3", {"mode": "fast"}, None),
    ],
)
def test_an_expression_is_true_false_or_unknown_as_the_record_says(
    text: str, record: dict[str, expr.Value], expected: bool | None
) -> None:
    assert expr.evaluate(expr.parse(text), record) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected NAME OP VALUE, found ''"),
        ("busbw", "expected NAME OP VALUE, found 'busbw'"),
        ("__import__('os').system('id') == 0", "expected NAME OP VALUE"),
        (
            "busbw < 'x'",
            "expected a number, true, false, a name, a word or NUMBER*NAME, found \"'x'\"",
        ),
        ("busbw < f(2)", "found 'f(2)'"),
        ("a == 1 or b == 2", "found '1 or b == 2'"),
    ],
)
def test_what_is_not_of_the_grammar_is_refused_with_the_part_quoted(
    text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=r"expected") as caught:
        expr.parse(text)
    assert message in str(caught.value)
