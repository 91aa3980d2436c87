"""Axes, lines, marks and matrices: what is drawn where."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.reports.charts import axes, fabric_map, matrix, members, plot, strip, svg
from busbw.reports.charts.axes import Scale

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</text><script>alert(1)</script>\"'\x1b&"


def parsed(drawing: svg.Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(drawing.markup)


def texts(drawing: svg.Drawing) -> list[str]:
    return [element.text or "" for element in parsed(drawing).iter(f"{SVG}text")]


def test_size_axis_has_round_powers_of_two_and_few_of_them() -> None:
    axis = axes.sizes(8, 8 << 30)
    assert [label for _, label in axis.ticks] == [
        "8 B",
        "256 B",
        "8 KiB",
        "256 KiB",
        "8 MiB",
        "256 MiB",
        "8 GiB",
    ]
    assert axis.place(8) == 0.0
    assert axis.place(8 << 30) == 1.0
    assert axis.place(256 << 10) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("high", "low", "labels"),
    [
        (400.0, 0.0, ["0", "100", "200", "300", "400"]),
        (371.0, 0.0, ["0", "100", "200", "300", "400"]),
        (0.0239, 0.0, ["0.000", "0.005", "0.010", "0.015", "0.020", "0.025"]),
        (1.95, 0.9, ["0.5", "1.0", "1.5", "2.0"]),
        (0.0, 0.0, ["0.0", "0.2"]),
    ],
)
def test_linear_axis_steps_by_one_two_or_five(high: float, low: float, labels: list[str]) -> None:
    assert [label for _, label in axes.linear(high, low).ticks] == labels


@given(st.floats(1e-6, 1e6), st.floats(0, 1))
def test_linear_axis_always_covers_what_is_drawn(high: float, share: float) -> None:
    axis = axes.linear(high, high * share)
    assert axis.low <= high * share * (1 + 1e-9)
    assert axis.high >= high * (1 - 1e-6)
    assert len(axis.ticks) <= 12


def test_time_axis_has_every_power_of_ten_with_its_unit() -> None:
    assert [label for _, label in axes.times(38.0, 88800.0).ticks] == [
        "10 µs",
        "100 µs",
        "1 ms",
        "10 ms",
        "100 ms",
    ]
    assert [label for _, label in axes.times(0.5, 0.6).ticks] == ["100 ns", "1 µs"]


def _plot(*lines: plot.Line) -> plot.Plot:
    return plot.Plot(
        "k",
        "A title",
        "What it says",
        axes.sizes(8, 1024),
        axes.linear(400.0),
        "size",
        "GB/s",
        lines,
    )


def test_plot_names_itself_and_says_what_it_shows() -> None:
    root = parsed(plot.draw(_plot(plot.Line("this run 192", ((8.0, 1.0), (1024.0, 192.0)), "bad"))))
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == "chart-k-t chart-k-d"
    assert [root.find(f"{SVG}title").text, root.find(f"{SVG}desc").text] == [
        "A title",
        "What it says",
    ]  # type: ignore[union-attr]  # None fails too


def test_labels_of_lines_that_end_together_do_not_overlap() -> None:
    lines = tuple(
        plot.Line(f"line {n}", ((8.0, 1.0), (1024.0, 192.0 + n / 10)), "bad") for n in range(5)
    )
    root = parsed(plot.draw(_plot(*lines)))
    spots = sorted(
        float(e.attrib["y"]) for e in root.iter(f"{SVG}text") if (e.text or "").startswith("line ")
    )
    assert all(below - above >= 14.9 for above, below in pairwise(spots))
    assert spots[-1] <= plot.WIDE.height


def test_label_of_a_line_that_ends_early_stands_at_its_end() -> None:
    drawing = plot.draw(
        _plot(
            plot.Line("short", ((8.0, 1.0), (16.0, 2.0)), "bad"),
            plot.Line("long", ((8.0, 1.0), (1024.0, 9.0)), "good"),
        )
    )
    places = {e.text: float(e.attrib["x"]) for e in parsed(drawing).iter(f"{SVG}text")}
    assert places["short"] < 300 < places["long"]


def test_pictures_carry_no_style_attribute_and_no_markup_from_texts() -> None:
    drawings = (
        plot.draw(_plot(plot.Line(HOSTILE, ((8.0, 1.0), (1024.0, 2.0)), "bad"))),
        members.draw(
            members.Members(
                "m", HOSTILE, HOSTILE, (HOSTILE,), (0,), (members.Row((0,), 0.5, HOSTILE, True),)
            )
        ),
        strip.draw(
            strip.Strip(
                "s",
                HOSTILE,
                HOSTILE,
                axes.linear(2),
                HOSTILE,
                (strip.Mark(1, 1, 1, True, HOSTILE),),
                HOSTILE,
                HOSTILE,
                (),
            )
        ),
        matrix.draw(
            matrix.Matrix(
                "x",
                HOSTILE,
                HOSTILE,
                (HOSTILE, "b"),
                ((0, 1, 5.0),),
                1.0,
                9.0,
                (0,),
                (HOSTILE, "z"),
            )
        ),
    )
    for drawing in drawings:
        root = parsed(drawing)
        assert not [
            element
            for element in root.iter()
            if "style" in element.attrib or element.tag == f"{SVG}script"
        ]
        assert "</text><script>alert(1)</script>\"'␛&" in "".join(root.itertext())


def test_five_thousand_processes_stay_a_handful_of_elements() -> None:
    marks = tuple(
        strip.Mark(1.9 if n == 40 else 1.0, 0.9, 2.0, n == 40, f"gpu-{n // 8}") for n in range(5000)
    )
    drawing = strip.draw(
        strip.Strip(
            "s",
            "t",
            "d",
            axes.linear(2.0),
            "×",
            marks,
            "first",
            "last",
            (strip.Rule(1.1, "1.10 ×"),),
        )
    )
    assert sum(1 for _ in parsed(drawing).iter()) < 40
    assert len(drawing.markup) < 100_000
    assert "gpu-5" in texts(drawing)


def test_the_title_of_an_axis_lies_beside_the_labels_of_its_ticks() -> None:
    """Twelve pixels high, a letter is about 7 wide; the title's line is 14 to 20 from the left."""
    marks = tuple(strip.Mark(0.0246 + n / 1e5, 0.0246, 0.025, False, "") for n in range(4))
    y = axes.linear(0.02464, 0.02460)
    picture = strip.Strip("s", "t", "d", y, "busbw, GB/s", marks, "a", "b", ())
    longest = max((label for _, label in y.ticks), key=len)
    assert len(longest) >= 7
    for room in (strip.WIDE, strip.NARROW):
        (tick,) = (
            e for e in parsed(strip.draw(picture, room)).iter(f"{SVG}text") if e.text == longest
        )
        assert float(tick.attrib["x"]) - 7 * len(longest) > 20


@pytest.mark.parametrize("values", [(1.0, 1.0), (1.0, 1.01), (1.0, 1.2)])
def test_the_words_of_two_lines_do_not_lie_on_each_other(values: tuple[float, float]) -> None:
    rules = tuple(strip.Rule(value, f"line {n}") for n, value in enumerate(values))
    marks = (strip.Mark(1.0, 1.0, 1.0, False, ""),)
    picture = strip.Strip("s", "t", "d", axes.linear(2.0), "×", marks, "a", "b", rules)
    words = [e for e in parsed(strip.draw(picture)).iter(f"{SVG}text") if "line" in (e.text or "")]
    one, other = (float(e.attrib["y"]) for e in words)
    assert abs(one - other) >= 11


def test_outliers_differ_in_shape_not_in_colour_alone() -> None:
    marks = (strip.Mark(1.0, 1.0, 1.0, False, ""), strip.Mark(2.0, 2.0, 2.0, True, ""))
    suspect = strip.Mark(3.0, 3.0, 3.0, True, "", suspect=True)
    picture = strip.Strip("s", "t", "d", axes.linear(3.0), "×", (*marks, suspect), "a", "b", ())
    root = parsed(strip.draw(picture))
    caps = {e.attrib["class"]: e.attrib["stroke-linecap"] for e in root.iter(f"{SVG}path")}
    assert caps == {"s-good": "round", "s-other": "square", "s-bad": "square"}


def test_groups_show_their_members_and_mark_the_accused_column() -> None:
    picture = members.Members(
        "m",
        "t",
        "d",
        ("a", "b", "c"),
        (1,),
        (members.Row((0, 1), 0.5, "24 GB/s", True), members.Row((0, 2), 1.0, "48 GB/s", False)),
    )
    root = parsed(members.draw(picture))
    bars = [
        float(e.attrib["width"]) for e in root.iter(f"{SVG}rect") if e.attrib["class"] != "f-mark"
    ]
    assert bars[1] == 2 * bars[0] > 500
    assert [e.attrib["class"] for e in root.iter(f"{SVG}rect")] == ["f-mark", "f-bad", "f-good"]
    assert texts(members.draw(picture)) == ["a", "b", "c", "24 GB/s", "48 GB/s"]


def test_a_pixel_shows_the_slowest_pair_of_its_block() -> None:
    values = [(a, b, 48.0) for a in range(1000) for b in range(a + 1, 1000) if b < 12 or a == 5]
    cells = matrix.pooled(1000, [(a, b, 24.0 if 5 in (a, b) else v) for a, b, v in values])
    assert len(cells) == 125
    assert {cells[0][column] for column in range(125)} == {24.0}
    assert {cells[row][0] for row in range(125)} == {24.0}
    assert cells[1][1] == 48.0
    assert cells[100][100] is None


def test_not_measured_has_a_colour_of_its_own() -> None:
    assert matrix.shade(None, 1.0, 2.0) == 0
    assert [matrix.shade(v, 1.0, 2.0) for v in (0.0, 1.0, 1.5, 2.0, 9.0)] == [1, 1, 7, 12, 12]
    assert matrix.palette()[0] not in matrix.palette()[1:]
    assert len(matrix.palette()) == 13


def test_a_place_outside_the_axis_is_held_at_its_end() -> None:
    axis = Scale(1.0, 100.0, True, ())
    assert [axis.place(v) for v in (0.0, 1.0, 10.0, 1000.0)] == [0.0, 0.0, 0.5, 1.0]


def test_coordinates_have_one_digit() -> None:
    numbers = re.findall(
        r"\d+\.\d+",
        plot.draw(_plot(plot.Line("a", ((8.0, 1.0), (100.0, 3.3), (1024.0, 7.7)), "bad"))).markup,
    )
    assert [n for n in numbers if len(n.split(".")[1]) > 2] == []


def test_the_map_of_pairs_is_paths_and_its_mirror_image_and_no_image() -> None:
    values = tuple(
        (a, b, 5.0 if 3 in (a, b) else 10.0) for a in range(12) for b in range(a + 1, 12)
    )
    names = tuple(f"n{number}" for number in range(12))
    picture = matrix.Matrix("m", "t", "d", names, values, 5.0, 10.5, (3,), ("slow", "fast"))
    markup = matrix.draw(picture).markup
    assert "<image" not in markup
    assert "data:" not in markup
    root = parsed(matrix.draw(picture))
    drawn = {
        e.attrib["stroke"]: e.attrib["d"] for e in root.iter(f"{SVG}path") if "stroke" in e.attrib
    }
    # Rows 0 to 2 have one slow cell in column 3; row 3 is slow from its diagonal on.
    assert drawn[matrix.palette()[1]] == "M3 0.5h1M3 1.5h1M3 2.5h1M4 3.5h8"
    assert [e.attrib["href"] for e in root.iter(f"{SVG}use")] == ["#matrix-half"]


def test_a_narrow_plot_names_its_lines_above_the_axes_and_fits_a_telephone() -> None:
    lines = (plot.Line("this run 192", ((8.0, 1.0), (1024.0, 192.0)), "good"),)
    root = parsed(plot.draw(_plot(*lines), plot.NARROW))
    assert float(root.attrib["width"]) <= 400
    (label,) = [e for e in root.iter(f"{SVG}text") if e.text == "this run 192"]
    assert float(label.attrib["x"]) + 7 * len("this run 192") < 400
    assert root.attrib["id"] == "chart-k-narrow"


def test_the_last_size_below_a_narrow_plot_is_not_cut_off() -> None:
    made = _plot(plot.Line("this run 192", ((8.0, 1.0), (1024.0, 192.0)), "good"))
    at_the_end = replace(made, x=replace(made.x, ticks=((made.x.high, "512 MiB"),)))
    root = parsed(plot.draw(at_the_end, plot.NARROW))
    (label,) = [e for e in root.iter(f"{SVG}text") if e.text == "512 MiB"]
    assert (label.attrib["text-anchor"], float(label.attrib["x"]) < 400) == ("end", True)


def test_the_map_of_the_fabric_marks_the_suspect_cable_only() -> None:
    fabric = fabric_map.Map(
        "fabric",
        "t",
        "d",
        (fabric_map.Place("leaf1", ""), fabric_map.Place("leaf2", "")),
        (fabric_map.Place("n1", ""), fabric_map.Place("n2", "rail 1 slow")),
        tuple(fabric_map.Cable(n, r, r, (n, r) == (1, 1)) for n in range(2) for r in range(2)),
    )
    wide = svg.Drawing(fabric_map.draw_both(fabric).markup.partition("<div")[0])
    paths = {e.attrib["class"]: e.attrib["d"] for e in parsed(wide).iter(f"{SVG}path")}
    assert paths["s-good"].count("M") == 3
    assert paths["s-bad"].count("M") == 1
    assert texts(wide) == ["leaf1", "leaf2", "n1", "n2: rail 1 slow"]
