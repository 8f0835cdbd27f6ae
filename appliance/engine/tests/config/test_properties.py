"""Properties of the whole: round trips, and answers for any bytes in linear time."""

from __future__ import annotations

import contextlib
import gc
import json
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.config.strategies import configurations

from strongroom.config.language.grammar import _remembered
from strongroom.config.reports.convert import convert
from strongroom.config.reports.effective import effective_values
from strongroom.config.reports.effects import ACTED_ON, explain
from strongroom.config.resolve import resolve
from strongroom.config.table.schema import COMPONENTS
from strongroom.config.trees.loader import LoadOptions, load_text
from strongroom.config.trees.printer import format_text, meaning


@pytest.fixture(scope="module", autouse=True)
def empty_folder(tmp_path_factory):
    """An include of `@*` takes no files that happen to be there."""
    with contextlib.chdir(tmp_path_factory.mktemp("empty")):
        yield


SLOW = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(configurations())
def test_a_configuration_made_from_the_table_survives_printing(made):
    component, text = made
    first = load_text(text, component, LoadOptions())
    assert [one.render() for one in first.diagnostics.sorted("error")] == []
    printed = format_text(text, component)
    second = load_text(printed, component, LoadOptions())
    assert second.diagnostics.sorted("error") == []
    assert meaning(second.trees[component]) == meaning(first.trees[component])
    assert format_text(printed, component) == printed


@SLOW
@given(configurations())
def test_every_value_can_be_shown_explained_and_converted(made):
    component, text = made
    loaded = load_text(text, component, LoadOptions())
    configuration = resolve(loaded, whole=False)
    resources = configuration.components[component].resources
    assert len(resources) == len(loaded.trees[component].blocks)
    for resource in resources:
        shown = effective_values(resource)
        json.dumps([[value.name, value.data] for value in shown])
        assert shown[0].text == resource.name
        assert {value.origin.kind for value in shown} <= {"set", "default", "inherited"}
    explained = list(explain(loaded.trees[component]))
    assert all(one.effect.why for one in explained if one.effect.status != ACTED_ON)
    for name, converted in convert(loaded).files.items():
        again = load_text(converted, name.split(".d/")[0], LoadOptions(werror=True))
        assert [one.render() for one in again.diagnostics.sorted("error")] == []


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=400), st.sampled_from(COMPONENTS))
@example(b"\xff\xfe", "director")
@example(b'Pool { Name = "\x00" }', "director")
def test_any_bytes_give_a_result_or_errors_at_a_place(data, component):
    _answers(data, component)


WORDS = (
    'Pool FileSet Include Options Run Name = { } ; " \\ # @ @| a 9 , Messages Mail Addresses ip '
    "addr Job RunScript Director at 1:00 Schedule !x mon = { }"
)
FRAGMENTS = st.sampled_from([*WORDS.split(), "\n", "\r"])


@settings(max_examples=600, deadline=None)
@given(st.lists(FRAGMENTS, max_size=40).map(" ".join), st.sampled_from(COMPONENTS))
def test_any_order_of_fragments_gives_a_result_or_errors_at_a_place(text, component):
    _answers(text.encode(), component)


def _answers(data, component):
    loaded = load_text(data, component, LoadOptions(strict=True), "/nowhere/t.conf")
    resolve(loaded)
    for finding in loaded.diagnostics.sorted():
        path, line, column = finding.place
        assert path in ("/nowhere/t.conf", f"<{component}>")
        assert line >= 1
        assert column >= 1
        assert finding.render()
        assert finding.as_json()["message"]


REPEATED = [
    b"}",
    b"{",
    b"Pool {",
    b"Pool { Name = p }\n",
    b'"',
    b'\\"\n',
    b'x = "\\"\n',
    b"a ",
    b"a\n",
    b"Foo = 1;",
    b"Pool { Recycle = yes;",
    b"FileSet { Include { Options { ",
    b"Profile { Name = p; Job ACL = a,",
    b"# c\n",
    b"@",
    b"Pool\n",
    b"= ",
    b"Director { Addresses = { ip = { addr = x ",
    b"Schedule { Name = s\n Run = ",
    b"Messages { Mail = a, ",
    b'FileSet { Include { Options { Regex = "[[:alpha:\n',
]


@pytest.mark.parametrize("piece", REPEATED, ids=lambda piece: piece[:24].decode())
def test_time_is_linear_in_the_size(piece):
    def seconds(count):
        data = piece * (count // len(piece))
        _remembered.cache_clear()
        # What the collector checks is all that other tests of this process have left.
        gc.collect()
        gc.disable()
        try:
            start = time.process_time()
            load_text(data, "director", LoadOptions(), "/nowhere/t.conf")
            return time.process_time() - start
        finally:
            gc.enable()

    seconds(2_000)
    small, large = min(seconds(30_000) for _ in range(2)), seconds(240_000)
    # Eight times the text may take eight times as long; quadratic would be 64 times.
    assert large < 8 * 3 * max(small, 0.01)


def test_a_long_list_is_parsed_whole():
    names = [f"n{number}" for number in range(20_000)]
    text = f"Profile {{ Name = p; Job ACL = {', '.join(names)} }}"
    loaded = load_text(text, "director", LoadOptions())
    assert loaded.diagnostics.entries == []
    assert loaded.trees["director"].blocks[0].last("jobacl").value == tuple(names)


def test_a_value_with_too_many_parts_is_refused():
    from strongroom.config.language.sources import LoadLimits

    text = "Profile { Name = p; Job ACL = " + ", ".join("a" * 100) + " }"
    loaded = load_text(text, "director", LoadOptions(limits=LoadLimits(statement_tokens=50)))
    assert "more than 50 parts" in loaded.diagnostics.entries[0].message
