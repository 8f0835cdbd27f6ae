"""What is said of a value that a variable does not take: anyone who does what it says has no fault left."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.strongroom.backup.plugins.module_utils.inventory_checks import know_directives, wrong_value

PROJECT = Path(__file__).resolve().parents[4]
ROLES = yaml.safe_load((PROJECT / "meta/variables.yml").read_text())["roles"]
OPTIONS = {name: option for role in ROLES.values() for name, option in role["options"].items()}
DIRECTIVES = yaml.safe_load((PROJECT / "meta/directives.yml").read_text())
know_directives(OPTIONS, DIRECTIVES)
# As people write them by mistake; values of each type.
VALUES = [
    None, "", "/etc", "/etc, /srv", "*.o", "yes", "a: b", "x" * 200, "{a", True, False, 0, 7, 1.5, -1,
    {"a": "/etc"}, {"name": "x"}, {"name": "x", "runs": ["daily"]}, ["/etc"], [None], [True], [["/etc"]],
    [{"a": "/etc"}],
]  # fmt: skip


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, True, None, "", " ", "1\n2"])
def test_a_kernel_setting_is_a_number_or_a_text(value):
    for name in ("strongroom_kernel_settings", "strongroom_hardening_kernel_settings"):
        places = [place for place, _text in wrong_value({"net.core.somaxconn": value}, OPTIONS[name], name)]
        assert places == [".net.core.somaxconn"]
        assert not list(wrong_value({"net.ipv4.tcp_rmem": "4096 87380 6291456"}, OPTIONS[name], name))


@pytest.mark.parametrize(
    "place", ["/srv/x", "s3://bucket/a/b?endpoint=https://h", "s3:host/bucket", "s3:https://h:9000/bucket/a"]
)
def test_a_place_of_backups_is_a_folder_or_a_bucket(place):
    assert not list(wrong_value(place, OPTIONS["strongroom_appliance_repository"], "it"))


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_advice_is_good(name):
    option = OPTIONS[name]
    for value in VALUES:
        for place, text in wrong_value(value, option, name):
            assert "None" not in text
            if place or "..." in text:
                continue
            written = re.search(r'; write (\[.*\]|"")', text)
            if written:
                assert list(wrong_value(yaml.safe_load(written[1]), option, name)) == [], (value, text)
            if "put it in quotes" in text:
                assert list(wrong_value(str(value).lower(), option, name)) == [], (value, text)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("strongroom_files", {"a": "/etc"}, "is not a list such as [/]"),
        ("strongroom_files", "/etc", "is not a list; write [/etc]"),
        ("strongroom_files", True, "is not a list such as [/]"),
        ("strongroom_exclude", "*.o", 'is not a list; write ["*.o"]'),
        ("strongroom_exclude", "", "is not a list; write []"),
        ("strongroom_groups", {"a": 1}, "is not a list; write [{name: ..., schedule: ..., retention: ...}]"),
        ("strongroom_kernel_settings", ["a"], "is not a dictionary; write {NAME: ...}"),
        ("strongroom_maximum_bandwidth", True, "is not a text"),
        ("strongroom_appliance_repository", "s3://bad bucket/x", "names no bucket: s3://BUCKET/PREFIX"),
        ("strongroom_appliance_repository", "s3:s3.example.org/", "names no bucket: s3://BUCKET/PREFIX"),
        ("strongroom_agent_group", None, "has no value"),
        ("strongroom_metrics_file", None, 'has no value; write "" for an empty one'),
    ],
)
def test_a_wrong_type_is_told(name, value, told):
    assert list(wrong_value(value, OPTIONS[name], name)) == [("", told)]


# Reads [resource or block, directive, value] as JSON; writes for each whether the engine refuses it.
ENGINE = """
import json, sys
from strongroom.config.trees.loader import LoadOptions, load_text
ROUND = {"JobDefs": "JobDefs { Name = x; %s }", "Messages": "Messages { Name = x; %s }",
         "Options": "FileSet { Name = x; Include { Options { %s } File = / } }",
         "Notify": "Messages { Name = x; Notify { Name = n; Type = Mail; %s } }"}
print(json.dumps([
    load_text(ROUND[place] % f"{name} = {value}", "director", LoadOptions()).diagnostics.has_errors
    for place, name, value in json.load(sys.stdin)
]))
"""
PLACES = {
    "JobDefs": OPTIONS["strongroom_groups"]["options"]["directives"],
    "Messages": OPTIONS["strongroom_mail"],
    "Options": OPTIONS["strongroom_filesets"]["options"]["options"],
    "Notify": OPTIONS["strongroom_notices"]["options"]["directives"],
}
# As a configuration has them, and as an inventory does.
DIRECTIVE_VALUES = ("5", "high", "6 hours", "6 tage", "20 mb/s", "yes", "maybe", "full", "md5", "StartTLS", "-1")


def test_of_directives_it_refuses_what_the_engine_refuses():
    asked = [
        (place, name, value)
        for place, kinds in DIRECTIVES.items()
        for kind, names in kinds.items()
        if kind not in ("text", "needs", "may")
        for name in [*names, "Wrong"]
        for value in DIRECTIVE_VALUES
    ]
    python = Path(shutil.which("strongroom")).parent / "python"
    done = subprocess.run([python, "-c", ENGINE], input=json.dumps(asked), capture_output=True, text=True, check=True)
    for (place, name, value), refused in zip(asked, json.loads(done.stdout), strict=True):
        faults = list(wrong_value({name.upper(): value}, PLACES[place], "it"))
        assert bool(faults) == refused, (place, name, value, faults)


def test_a_misspelt_directive_is_told_with_the_nearest():
    assert list(wrong_value({"Prioritee": 5}, PLACES["JobDefs"], "it")) == [
        (".Prioritee", "is not a directive of JobDefs; did you mean Priority?")
    ]
    assert list(wrong_value({"resolved": True, "Maximum per hour": 5}, PLACES["Notify"], "it")) == []
