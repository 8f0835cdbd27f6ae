from __future__ import annotations

import os
import shutil

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.strongroom.backup.plugins.filter.bareos_conf import (
    from_bareos_conf,
    to_bareos_conf,
)

pytestmark = pytest.mark.skipif(
    shutil.which("strongroom") is None and "STRONGROOM_TESTED" not in os.environ,
    reason="the engine's command is not in PATH",
)

TREE = """
Client { Name = web1; Address = web1.example.org; Password = "p \\"q\\" \\\\"; Maximum Concurrent Jobs = 3 }
Job {
  Name = "nightly of web1"
  Client = web1
  Max Run Time = 2 hours 30 min
  Maximum Bandwidth = 10 mb/s
  Enabled = no
  Run Script { Command = "true"; Runs When = Before }
  Run Script { Command = "false"; Runs When = After }
}
Schedule { Name = nights
  Run = Level=Full Pool="My Pool" 1st sat at 21:00
  Run = mon-fri at 21:00
}
Messages { Name = m
  Mail = a@x, b@x = all, !skipped
  File = "/var/log/a b" = all
}
Director { Name = d; Password = y; Addresses = { ip = { addr = 10.0.0.1; port = 9101 } } }
FileSet { Name = f
  Include {
    Options { Compression = zstd3; Signature = SHA256 }
    Options { Exclude = yes; Wild Dir = "/a" }
    File = /etc
    File = "/srv/a b"
  }
}
Pool { Name = p; Volume Retention = 30 days; Maximum Volume Bytes = 5g }
"""


def test_what_is_read_is_written_with_the_same_meaning():
    resources = from_bareos_conf(TREE)
    assert from_bareos_conf(to_bareos_conf(resources)) == resources


def test_resources_are_data_as_an_inventory_has_it():
    resources = from_bareos_conf(TREE)
    assert resources[0]["Client"] == {
        "Name": "web1",
        "Address": "web1.example.org",
        "Password": 'p "q" \\',
        "MaximumConcurrentJobs": "3",
    }
    include = resources[5]["FileSet"]["Include"]
    assert include["File"] == ["/etc", "/srv/a b"]
    assert [options.get("Compression") for options in include["Options"]] == ["zstd3", None]


def test_values_get_the_quotes_that_their_directive_wants():
    text = to_bareos_conf(
        {
            "Job": {
                "Name": "a b",
                "Max Run Time": "2 hours",
                "Priority": 5,
                "Enabled": True,
                "Storage": ["s1", "s2"],
            }
        }
    )
    lines = [line.strip() for line in text.splitlines()]
    assert 'Name = "a b"' in lines
    assert "Max Run Time = 2 hours" in lines
    assert "Priority = 5" in lines
    assert "Enabled = yes" in lines
    assert 'Storage = "s1"' in lines
    assert 'Storage = "s2"' in lines


def test_a_value_cannot_end_its_line():
    with pytest.raises(AnsibleFilterError, match="line break"):
        to_bareos_conf({"Client": {"Name": "a\n}\nConsole {"}})
    text = to_bareos_conf({"Client": {"Name": "a", "Password": '"; Address = evil; #'}})
    assert from_bareos_conf(text) == [{"Client": {"Name": "a", "Password": '"; Address = evil; #'}}]


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ({"Job": {"Name": "a", "Max Run Time": "soon"}}, "soon"),
        ({"Job": {"Name": "a", "Priority": None}}, "Priority has no value"),
        ({"Sandwich": {"Name": "a"}}, "Sandwich"),
        (["Client"], "such as"),
    ],
)
def test_what_is_wrong_is_named(resources, told):
    with pytest.raises(AnsibleFilterError, match=told):
        to_bareos_conf(resources)


def test_the_place_of_a_fault_is_told():
    with pytest.raises(AnsibleFilterError, match="line 2"):
        from_bareos_conf("Client {\n  Maximum Concurrent Jobs = many\n}\n")


def test_a_component_that_does_not_exist_is_named():
    with pytest.raises(AnsibleFilterError, match="kitchen"):
        from_bareos_conf("", component="kitchen")


def test_without_the_engine_it_is_told_what_to_install():
    with pytest.raises(AnsibleFilterError, match="install the package strongroom"):
        from_bareos_conf("", command="strongroom-that-is-not-there")
