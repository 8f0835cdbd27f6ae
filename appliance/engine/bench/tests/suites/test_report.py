"""Tables and charts of suites, from figures that are known."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import msgspec
import pytest

from strongroom.cli.measure.profile import Machine
from strongroom_bench.suites.report import circumstances, markdown, suite_page, svg, table_of
from strongroom_bench.suites.result import Row, SuiteResult, Taken, Way, counted, in_turns

RESULT = SuiteResult(
    "obnam", "Queues", "a text", "2026-01-01T00:00:00Z",
    Machine("web1", "a processor", 4, (), 8 << 30, 6 << 30, "6.1", "3.11"),
    0.1, "100 files", "defaults", "blocks",
    (
        Row("far, first", "defaults", (4.0, 2.0, 3.0), 50 << 20),
        Row("far, first", "queue 8", (1.0, 1.0, 2.0), 60 << 20, 8),
        Row("far, first", "queue <32>", (4.0,), 0, 32),
    ),
)  # fmt: skip


def test_rounds_are_compared_with_the_reference_of_their_group():
    assert [row[2] for row in table_of(RESULT)[1]] == ["3.00 s", "1.00 s", "4.00 s"]
    assert [row[5] for row in table_of(RESULT)[1]] == ["1.0 x", "2.0 x", "1.0 x"]


def test_a_group_without_the_reference_is_compared_with_nothing():
    rows = (Row("near", "defaults", (1.0,)), Row("disk", "one read", (93e-6,)))
    texts = table_of(msgspec.structs.replace(RESULT, rows=rows))[1]
    assert [row[5] for row in texts] == ["1.0 x", ""]


@pytest.mark.parametrize(
    ("seconds", "median", "runs"),
    [
        ((0.25, 0.3, 0.35), "0.30 s", "0.25, 0.30, 0.35"),
        ((0.0123, 0.015, 0.2), "15.0 ms", "12.3 ms, 15.0 ms, 0.20 s"),
        ((93e-6,), "93 us", "93 us"),
    ],
)
def test_short_times_are_told_in_small_units(seconds, median, runs):
    [row] = table_of(msgspec.structs.replace(RESULT, rows=(Row("a", "b", seconds),)))[1]
    assert row[2:4] == (median, runs)


def test_the_chart_and_the_pages_hold_what_was_measured():
    root = ET.fromstring(svg(RESULT))
    assert len(root.findall(".//{*}circle")) == 2
    assert "far, first" in [one.text for one in root.findall(".//{*}text")]
    assert "| far, first | queue 8 | 1.00 s | 1.00, 1.00, 2.00 |" in markdown(RESULT)
    assert "queue &lt;32&gt;" in suite_page(RESULT)


def test_a_page_says_for_whom_it_is_and_shows_its_chart_where_there_is_one():
    text = markdown(RESULT, "administrators of links", "obnam.svg")
    assert "\n*For administrators of links.*\n" in text
    assert "](obnam.svg)" in text
    assert "![" not in markdown(RESULT)
    assert "*For" not in markdown(RESULT)


def test_every_line_of_a_chart_is_named_within_the_picture():
    names = [f"a condition with a long name, number {number}" for number in range(6)]
    rows = [Row(name, "defaults", (1.0,), 0, place) for name in names for place in (1, 2)]
    root = ET.fromstring(svg(msgspec.structs.replace(RESULT, rows=tuple(rows))))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    named = {one.text: one for one in root.findall(".//{*}text")}
    for name in names:
        assert float(named[name].attrib["y"]) < height
        assert float(named[name].attrib["x"]) < width / 2


@pytest.mark.parametrize(("cores", "is_told"), [(0.05, False), (0.3, True)])
def test_figures_taken_beside_other_programs_say_so(cores, is_told):
    found = msgspec.structs.replace(RESULT, others_cores=cores)
    told = "Taken beside other programs, which used 0.3 cores" in circumstances(found)
    assert told is is_told


def test_a_row_is_compared_with_its_own_reference_too():
    rows = (
        Row("g", "defaults", (4.0,), serial_seconds=0.5),
        Row("g", "lz4, 0 workers", (8.0,)),
        Row("g", "lz4, 2 workers", (2.0,), own_reference="lz4, 0 workers"),
        Row("g", "said", (), figure="3% of files"),
    )
    result = msgspec.structs.replace(RESULT, rows=rows)
    heads, cells = table_of(result)
    assert [row[heads.index("times as fast")] for row in cells] == ["1.0 x", "0.5 x", "2.0 x", ""]
    own = [row[heads.index("beside its own")] for row in cells]
    assert own == ["", "", "4.0 x lz4, 0 workers", ""]
    assert [row[heads.index("serial")] for row in cells] == ["0.50 s", "", "", ""]
    assert cells[3][heads.index("median")] == ""
    assert "no number of cores makes a backup faster" in markdown(result)
    assert "3% of files" in suite_page(result)


def test_each_group_with_several_lines_has_a_chart_of_them():
    rows = tuple(
        Row(group, f"{codec}, {place} workers", (1.0 + place,), place=place, line=codec)
        for group in ("media", "sources")
        for codec in ("lz4", "lzo")
        for place in (0, 2, 8)
    )
    root = ET.fromstring(svg(msgspec.structs.replace(RESULT, rows=rows)))
    assert len(root.findall(".//{*}polyline")) == 4
    texts = [one.text for one in root.findall(".//{*}text")]
    assert texts.count("lz4") == texts.count("lzo") == 2
    assert [text for text in texts if text.endswith(", seconds")] == [
        "media, seconds", "sources, seconds",
    ]  # fmt: skip
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert height > width / 2


def test_the_best_of_a_group_is_marked_in_table_and_chart_with_a_line_behind_it():
    rows = (
        Row("g", "by itself", (2.1,), figure="+5% beside 2 shards"),
        Row("g", "2 shards", (2.0,), is_best=True),
        Row("g", "8 shards", (4.0,)),
    )
    result = msgspec.structs.replace(RESULT, rows=rows)
    assert [row[1] for row in table_of(result)[1]] == ["by itself", "2 shards (best)", "8 shards"]
    root = ET.fromstring(svg(result))
    itself, best, _ = root.findall(".//{*}rect")
    assert "fill" in best.attrib.get("style", "")
    assert "style" not in itself.attrib
    (line,) = root.findall(".//{*}line")
    end = float(best.attrib["x"]) + 1.1 * float(best.attrib["width"])
    assert float(line.attrib["x1"]) == pytest.approx(end, abs=0.1)


@pytest.mark.parametrize(("number", "text"), [(0, "0 workers"), (1, "1 worker"), (2, "2 workers")])
def test_one_is_singular(number, text):
    assert counted(number, "worker") == text


def test_ways_take_turns_and_their_order_turns_around():
    asked = []

    def run(way):
        asked.append(way.name)
        yield "first", Taken(len(asked), len(asked))
        yield "unchanged", Taken(0.5)

    rows = in_turns("far", [Way("a"), Way("b", place=3)], 3, run)
    assert asked == ["a", "b", "b", "a", "a", "b"]
    assert rows == [
        Row("far, first", "a", (1, 4, 5), 5),
        Row("far, first", "b", (2, 3, 6), 6, 3),
        Row("far, unchanged", "a", (0.5, 0.5, 0.5)),
        Row("far, unchanged", "b", (0.5, 0.5, 0.5), 0, 3),
    ]


def test_a_condition_at_zero_has_its_place_on_the_axis():
    # Workers begin with none at all.
    places = (0, 1, 2, 8)
    rows = tuple(Row("g", f"{place} workers", (1.0,), place=place) for place in places)
    drawn = svg(msgspec.structs.replace(RESULT, rows=rows))
    found = [float(x) for x in re.findall(r'<circle [^>]*cx="([0-9.]+)"', drawn)]
    assert found == sorted(set(found))
    assert len(found) == len(places)


def test_conditions_at_the_same_place_are_bars_and_no_line():
    rows = tuple(Row("g", name, (1.0,), place=1) for name in ("lz4, 1 worker", "auto, 1 worker"))
    drawn = svg(msgspec.structs.replace(RESULT, rows=rows))
    assert "<polyline" not in drawn
    assert "auto, 1 worker" in drawn
