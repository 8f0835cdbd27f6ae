"""No place says anything of a knob that the table of knobs does not say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from strongroom.base.errors import UsageError
from strongroom.cli.main import command_parser
from strongroom.config.model import typed_default
from strongroom.config.reports.effects import ACTED_ON, effect_of
from strongroom.config.reports.reference import json_schema
from strongroom.config.resolve import resolve
from strongroom.config.settings.client import client_knobs
from strongroom.config.table.schema import DirectiveSpec, key_of, schema
from strongroom.config.table.types import (
    OPTION_KEYWORDS,
    OWN_KEYWORDS,
    VALUE_TYPES,
    read_table,
)
from strongroom.config.trees.loader import LoadOptions, load_text
from strongroom.engine.backup.options import Tuning, settle_tuning
from strongroom.engine.content.codecs import parse_compression
from strongroom.engine.content.digests import signature_names
from strongroom.engine.knobs.document import role_arguments
from strongroom.engine.knobs.knob import Knob
from strongroom.engine.knobs.settings import KnobSettings, check, merged
from strongroom.engine.knobs.table import (
    BACKUP_KNOBS,
    JOB_KNOBS,
    KNOBS,
    TLS_MODE_DEFAULT,
    TLS_MODES,
    knob_named,
    search_space,
)
from strongroom.net.control.messages import StartBackup, StorageTarget, TlsMode

NAMES = [knob.name for knob in BACKUP_KNOBS]
NUMBERS = [knob for knob in KNOBS if knob.kind == "number"]
DIRECTIVE_TYPES = {
    "number": {"PINT32"},
    "switch": {"BOOL", "OPTION"},
    "word": {"OPTION", "KTLS"},
    "text": {"STDSTR"},
    "rate": {"SPEED"},
}


def spec_at(place: str, knob: Knob) -> DirectiveSpec:
    component, _, resource = place.rpartition(".")
    if not component:
        return schema().blocks[resource].by_key[key_of(knob.directive)]
    found = schema().components[component].resources[resource.lower()]
    return found.by_key[key_of(knob.directive)]


def places() -> list[Any]:
    return [
        pytest.param(knob, place, id=f"{place}-{knob.name}")
        for knob in KNOBS
        for place in knob.places
    ]


def client(component: str, text: str) -> Any:
    others = "Director { Name = d; Password = p }" if component == "agent" else ""
    loaded = load_text(f"Client {{ Name = c; {text} }} {others}", component, LoadOptions())
    configuration = resolve(loaded, whole=False)
    assert not loaded.diagnostics.has_errors, loaded.diagnostics.sorted("error")
    return configuration.components[component].find("Client", "c")


def test_names_variables_and_directives_are_of_one_knob_each() -> None:
    for said in ("name", "variable", "directive"):
        words = [getattr(knob, said) for knob in KNOBS if getattr(knob, said)]
        assert len(set(words)) == len(words)


def test_settings_and_tuning_have_the_knobs_of_a_backup_and_their_defaults() -> None:
    assert list(KnobSettings.__struct_fields__) == [knob.name for knob in JOB_KNOBS]
    assert list(Tuning.__struct_fields__) == NAMES
    assert settle_tuning(spelling="option") == Tuning()
    for knob in BACKUP_KNOBS:
        value = getattr(Tuning(), knob.name)
        assert (str(value) if knob.name == "compression" else value) == knob.default


def test_the_options_of_backup_are_those_of_the_table() -> None:
    parser = command_parser("backup")
    # argparse has no public way to look at options.
    (group,) = [one for one in parser._action_groups if (one.title or "").startswith("knobs")]  # noqa: SLF001
    shown = {action.option_strings[0]: action for action in group._group_actions}  # noqa: SLF001
    assert list(shown) == [knob.option.flag for knob in BACKUP_KNOBS if knob.option]
    for knob in BACKUP_KNOBS:
        assert knob.option is not None
        action = shown[knob.option.flag]
        assert (action.dest, action.help) == (knob.name, knob.option.help)
        assert action.default is None, "what is not said is left to the table"


def test_the_ways_to_a_storage_daemon_are_those_of_the_protocol() -> None:
    assert get_args(TlsMode) == TLS_MODES
    assert StorageTarget(address="", port=0, server_name="").tls_mode == TLS_MODE_DEFAULT
    parser = command_parser("backup")
    (action,) = [one for one in parser._actions if one.option_strings == ["--tls"]]  # noqa: SLF001
    assert (tuple(action.choices or ()), action.default) == (TLS_MODES, TLS_MODE_DEFAULT)


@pytest.mark.parametrize(("knob", "place"), places())
def test_the_table_of_directives_has_the_knob(knob: Knob, place: str) -> None:
    spec = spec_at(place, knob)
    component, _, resource = place.rpartition(".")
    assert spec.shown_name == knob.directive
    assert spec.type in DIRECTIVE_TYPES[knob.kind]
    assert spec.default == knob.directive_default
    assert spec.description.startswith(knob.summary)
    assert effect_of(component, resource, spec).status == ACTED_ON


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_no_other_directive_is_named_like_a_number(knob: Knob) -> None:
    """Bounds are found by the directive's name alone."""
    if knob.kind != "number":
        return
    named = {
        f"{component.name}.{resource.name}"
        for component in schema().components.values()
        for resource in component.resources.values()
        if (spec := resource.by_key.get(key_of(knob.directive))) and not spec.bacula
    }
    assert named == set(knob.places)


def test_the_table_says_nothing_of_a_knob_but_where_its_directive_is_known() -> None:
    rows = read_table("directives.json")["directives"]
    found = 0
    for knob in KNOBS:
        for place in knob.places:
            component, _, resource = place.rpartition(".")
            known = (
                schema().components[component].resources[resource.lower()]
                if component
                else schema().blocks[resource]
            )
            name = known.by_key[key_of(knob.directive)].name
            row = rows.get(f"{place}.{name}") or rows.get(f"{resource}.{name}") or rows[name]
            assert not {"description", "default"} & set(row)
            found += 1
    assert found > 10


def test_words_are_those_that_configuration_and_engine_know() -> None:
    for name in ("Compression", "Signature"):
        known = {word.lower() for word in (*OPTION_KEYWORDS[name], *OWN_KEYWORDS[name])}
        assert known == set(knob_named(name.lower()).words)
    assert set(knob_named("ktls").words) == set(VALUE_TYPES["KTLS"].words) - {"true", "false"}
    assert set(knob_named("signature").words) == set(signature_names())
    for word in knob_named("compression").words:
        if word != "lzo":  # is not installed everywhere
            assert parse_compression(word)
    with pytest.raises(UsageError) as caught:
        parse_compression("zip")
    assert "gzip1-9" in str(caught.value)
    assert "zstd1-19" in str(caught.value)


@pytest.mark.parametrize("knob", NUMBERS, ids=lambda knob: knob.name)
def test_a_directive_has_the_bounds_of_the_knob(knob: Knob) -> None:
    most = knob.directive_most
    assert client("agent", f"{knob.directive} = {most}")
    loaded = load_text(
        f"Client {{ Name = c\n {knob.directive} = {most + 1} }}", "agent", LoadOptions()
    )
    (finding,) = loaded.diagnostics.sorted("error")
    for part in (":2:", knob.directive, f"from {knob.least} to {most}"):
        assert part in finding.head()
    entry = json_schema("agent")["$defs"]["agent.Client"]["properties"][knob.directive]
    assert (entry["minimum"], entry["maximum"]) == (knob.least, most)


@pytest.mark.parametrize("component", ["agent", "director"])
def test_a_client_says_of_its_knobs_what_it_sets_and_nothing_else(component: str) -> None:
    needed = "" if component == "agent" else "Address = a; Password = p;"
    assert client_knobs(client(component, needed)) == KnobSettings()
    said = client_knobs(
        client(
            component,
            f"{needed} Maximum Workers Per Job = 3; Scan Threads = 4; Shards = 5; "
            "Upload Queue Size = 6; Lru Size = 81920; Nice = 0",
        )
    )
    assert said == KnobSettings(
        workers=3, scan_threads=4, shards=5, upload_queue_size=6, lru_size=10, nice=0
    )
    assert client_knobs(client(component, f"{needed} Lru Size = 1")).lru_size == 2
    assert client_knobs(client(component, f"{needed} Shards = 0")).shards == 0


def test_a_later_layer_goes_before_an_earlier_one() -> None:
    agent = KnobSettings(workers=2, shards=3, acls=False)
    director = KnobSettings(workers=0, compression="ZSTD3")
    tuning = settle_tuning(agent, director, spelling="directive")
    assert tuning == Tuning(workers=0, shards=3, acls=False, compression=parse_compression("zstd3"))


def test_of_a_limit_the_highest_counts_whoever_says_it() -> None:
    for agent, director, expected in (
        (None, None, 10), (None, 0, 0), (5, None, 5), (5, 3, 5), (5, 12, 12),
    ):  # fmt: skip
        layers = (KnobSettings(nice=agent), KnobSettings(nice=director))
        assert merged(*layers, spelling="directive", knobs=JOB_KNOBS)["nice"] == expected


def test_zero_stands_for_what_the_table_says() -> None:
    nothing = KnobSettings(upload_queue_size=0, lru_size=0, workers=0, scan_threads=0, shards=0)
    assert settle_tuning(nothing, spelling="option") == Tuning()


@pytest.mark.parametrize(
    ("settings", "option", "directive"),
    [
        (KnobSettings(workers=-1), "--workers -1: ", "Maximum Workers Per Job = -1: "),
        (KnobSettings(lru_size=1 << 21), "--lru-size 2097152: ", "Lru Size = 2097152: "),
        (KnobSettings(signature="crc"), "--signature crc: ", "Signature = crc: "),
        (KnobSettings(compression="zip"), "--compression zip: ", "Compression = zip: "),
    ],
)
def test_a_value_out_of_bounds_is_told_as_it_was_spelled(
    settings: KnobSettings, option: str, directive: str
) -> None:
    (name,) = settings.given()
    with pytest.raises(UsageError) as caught:
        merged(settings, spelling="option")
    assert str(caught.value) == f"{option}write {knob_named(name).expected}"
    with pytest.raises(UsageError) as caught:
        merged(settings, spelling="directive")
    assert str(caught.value).startswith(directive)


DOCUMENTS = Path(__file__).resolve().parents[5] / "docs"


def test_arguments_of_roles_have_the_defaults_of_the_directives() -> None:
    arguments = role_arguments()
    assert list(arguments) == [knob.variable for knob in KNOBS if knob.directive]
    for knob in KNOBS:
        if not knob.directive:
            continue
        argument = arguments[knob.variable]
        summary, remarks = argument["description"]
        assert summary == knob.summary
        assert ("Unit: " in remarks) == (knob.kind in ("number", "rate"))
        assert knob.effect
        assert f"Expected effect: {knob.effect}" in remarks
        page = knob.evidence.partition("#")[0]
        assert f"Evidence: {f'docs/{page}' if page else 'not measured'}." in remarks
        assert not page or (DOCUMENTS / page).exists()
        default = typed_default(spec_at(knob.places[0], knob))
        if knob.kind == "switch":
            assert argument["default"] is bool(knob.default)
        else:
            assert argument["default"] == (default if default is not None else "")
        if "choices" in argument:
            assert argument["default"] in argument["choices"]


def test_measuring_tries_only_what_changes_speed_and_only_what_is_valid() -> None:
    assert {"compression", "workers", "scan_threads", "shards"} <= set(search_space())
    for name, candidates in search_space().items():
        assert knob_named(name).changes == "speed"
        for value in candidates:
            check(knob_named(name), value, "option")
    assert not [knob.name for knob in KNOBS if knob.candidates and knob.changes != "speed"]


def test_an_order_of_a_newer_director_is_taken_and_one_of_the_wrong_type_is_not() -> None:
    order = {
        "run_id": "1",
        "job": "j",
        "level": "full",
        "fileset": {"name": "f"},
        "storage": {"address": "/r", "port": 0, "server_name": ""},
        "tuning": {"workers": 2, "newer": 1},
    }
    taken = msgspec.convert({"type": "start-backup", **order}, StartBackup)
    assert taken.tuning == KnobSettings(workers=2)
    assert msgspec.to_builtins(taken)["tuning"] == {"workers": 2}
    with pytest.raises(msgspec.ValidationError, match=r"tuning\.shards"):
        msgspec.convert(
            {"type": "start-backup", **order, "tuning": {"shards": "many"}}, StartBackup
        )


def test_a_word_in_place_of_a_number_is_told_with_the_bounds() -> None:
    with pytest.raises(UsageError, match="--shards: 'x': "):
        command_parser("backup").parse_args(["/etc", "--shards", "x"])


def test_defaults_in_the_help_of_other_commands_are_those_of_the_table() -> None:
    parser = command_parser("copy")
    (action,) = [one for one in parser._actions if one.option_strings == ["--compression"]]  # noqa: SLF001
    assert action.default == knob_named("compression").default


def test_a_backup_without_a_fileset_reads_no_configuration_language() -> None:
    code = (
        "import sys; from strongroom.cli.main import main;"
        "main(['backup', '/nowhere', '--repo', '/nowhere', '--shards', '2', '--workers', '1']);"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "strongroom.engine.knobs.table" in loaded
    assert not [name for name in loaded if name.startswith(("pyparsing", "strongroom.config"))]
