"""The inventory plugin, of a real director's API and of its configuration."""

from __future__ import annotations

import json
import sys
import time

import pytest
import yaml

from .conftest import PATIENCE_SECONDS, ansible

BAREOS = {
    "client/web1.conf": "Client { Name = web1-fd; Address = 192.0.2.41; Password = x }",
    "client/db1.conf": "Client { Name = db1-fd; Address = db1.example.org; Password = x; TLS Enable = no }",
    "job/web1.conf": 'Job { Name = "backup-web1"; JobDefs = Usual; Client = web1-fd }',
    "jobdefs/usual.conf": (
        "JobDefs { Name = Usual; Type = Backup; Level = Incremental; FileSet = All; Storage = File; Pool = Full\n"
        "  Messages = Standard; Schedule = Weekly }"
    ),
    "fileset/all.conf": "FileSet { Name = All; Include { Options { Signature = MD5 }; File = / } }",
    "storage/file.conf": "Storage { Name = File; Address = vault; Password = x; Device = Files; Media Type = File }",
    "pool/full.conf": "Pool { Name = Full; Pool Type = Backup }",
    "schedule/weekly.conf": "Schedule { Name = Weekly; Run = Full sat at 21:00; }",
    "messages/standard.conf": "Messages { Name = Standard; Console = all }",
    "catalog/main.conf": 'Catalog { Name = MyCatalog; dbname = bareos; dbuser = bareos; dbpassword = "" }',
    "director/boss.conf": "Director { Name = boss; Password = x; Messages = Standard; QueryFile = /etc/q.sql }",
}


@pytest.fixture
def inventory(house, tmp_path):
    """What ansible-inventory makes of an inventory file with these options."""

    def run(exit_code=0, environment=None, **options):
        path = tmp_path / "clients.strongroom.yml"
        path.write_text(yaml.safe_dump({"plugin": "strongroom.backup.director", **options}))
        words = ["ansible-inventory", "-i", str(path), "--list", "--export"]
        variables = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1", **(environment or {})}
        said = ansible(*words, house=house, folder=tmp_path, exit_code=exit_code, **variables)
        return said if exit_code else json.loads(said)

    return run


def hosts(told, group):
    return told.get(group, {}).get("hosts", [])


def plain(told, host):
    """What is known of a host, without the marks that its texts are no templates."""

    def unmarked(value):
        if isinstance(value, dict):
            return (
                value["__ansible_unsafe"] if "__ansible_unsafe" in value else {k: unmarked(v) for k, v in value.items()}
            )
        return [unmarked(one) for one in value] if isinstance(value, list) else value

    return unmarked(told["_meta"]["hostvars"][host])


def test_clients_are_hosts_in_groups_of_what_is_known_of_them(house, inventory):
    house.command("run", "db1", "--watch")
    house.command("run", "broken", "--watch", exit_code=4)
    told = inventory(director=house.url, identity=house.identity)
    assert {"db1", "web1", "web2"} <= set(hosts(told, "agents"))
    assert "appliance" not in hosts(told, "agents")
    assert set(hosts(told, "group_servers")) >= {"web1", "web2"}
    assert hosts(told, "group_databases") == ["db1"]
    assert hosts(told, "tls_off") == ["db1"]
    assert "web1" in hosts(told, "tls_tls") + hosts(told, "tls_ktls")
    assert "web1" in hosts(told, "connected")
    assert "web2" in hosts(told, "offline")
    assert hosts(told, "failed") == ["db1"]
    assert "web1" not in hosts(told, "late")
    variables = plain(told, "web1")
    assert variables["ansible_host"] == "127.0.0.1"
    assert variables["strongroom_client"]["groups"] == ["servers"]
    assert variables["strongroom_client"]["connected"] is True


def test_a_client_whose_job_is_overdue_is_late(house, inventory):
    def late():
        return hosts(inventory(director=house.url, identity=house.identity), "late")

    house.command("run", "db1", "--watch")
    # The director looks for what is overdue now and then.
    for _ in range(PATIENCE_SECONDS):
        if any(one["event"] == "job-overdue" for one in house.command("status")[0]["problems"]):
            break
        time.sleep(1)
    assert late() == ["db1"]


def test_constructed_features_see_what_is_known(house, inventory):
    told = inventory(
        director=house.url,
        identity=house.identity,
        parent="backed_up",
        only_enrolled=False,
        compose={"ansible_user": "'backup-' ~ strongroom_client.name"},
        groups={"never_seen": "not strongroom_client.last_seen"},
        keyed_groups=[{"key": "strongroom_client.version", "prefix": "version"}],
    )
    assert "appliance" in hosts(told, "backed_up")
    assert plain(told, "web1")["ansible_user"] == "backup-web1"
    assert "web2" in hosts(told, "never_seen")
    assert "web1" not in hosts(told, "never_seen")
    (version,) = [name for name in told if name.startswith("version_0")]
    assert "web1" in hosts(told, version)


def test_a_token_shows_what_it_may_see(house, inventory, tmp_path):
    file = tmp_path / "token"
    file.write_text(house.viewer_token + "\n")
    place = {"director": house.url, "authority": house.authority}
    assert hosts(inventory(**place, token_file=str(file)), "agents") == ["web1"]
    told = inventory(**place, environment={"STRONGROOM_TOKEN": house.viewer_token})
    assert hosts(told, "agents") == ["web1"]
    assert house.viewer_token not in str(told)


def test_from_the_cache_the_director_is_not_asked(house, inventory, tmp_path):
    options = {
        "director": house.url,
        "identity": house.identity,
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
        "keyed_groups": [{"key": "strongroom_client.tls_mode", "prefix": "mode"}],
    }
    first = inventory(**options)
    # The key of the cache is the inventory file's name, whatever is in it.
    second = inventory(**{**options, "director": "https://localhost:1"})
    assert hosts(second, "agents") == hosts(first, "agents") != []
    assert hosts(second, "mode_off") == ["db1"]
    options.pop("cache")
    assert "cannot be reached" in inventory(**{**options, "director": "https://localhost:1"}, exit_code=1)


def test_a_directors_configuration_is_an_inventory_too(house, inventory):
    told = inventory(tree=str(house.folder / "etc/director.d"))
    assert {"appliance", "db1", "web1", "web2"} <= set(hosts(told, "agents"))
    assert hosts(told, "group_databases") == ["db1"]
    assert hosts(told, "tls_off") == ["db1"]
    assert "web1" in hosts(told, "tls_auto")
    assert "connected" not in told


def test_the_configuration_of_a_bareos_director_is_an_inventory(inventory, tmp_path):
    for name, text in BAREOS.items():
        path = tmp_path / "bareos/bareos-dir.d" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    for tree in ("bareos", "bareos/bareos-dir.d"):
        told = inventory(tree=str(tmp_path / tree))
        assert hosts(told, "agents") == ["db1-fd", "web1-fd"]
        assert plain(told, "web1-fd")["ansible_host"] == "192.0.2.41"
        assert plain(told, "web1-fd")["strongroom_client"]["jobs"] == ["backup-web1"]
        assert hosts(told, "tls_off") == ["db1-fd"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tree": "/nowhere"}, "tree: there is no /nowhere"),
        ({"tree": "/etc", "command": "strongroom-that-is-not-there"}, "install the package strongroom on this machine"),
        ({"tree": "/etc", "token": "x"}, "give either tree, or director with token"),
        ({"director": "https://localhost:1"}, "cannot be reached"),
    ],
)
def test_what_is_wrong_is_said(inventory, options, text):
    assert text in " ".join(inventory(exit_code=1, **options).split())


def test_a_tree_with_errors_names_the_place(inventory, tmp_path):
    path = tmp_path / "director.d/client/web1.conf"
    path.parent.mkdir(parents=True)
    path.write_text("Client {\n  Name = web1\n  Sandwich = yes\n}\n")
    said = inventory(exit_code=1, tree=str(tmp_path / "director.d"))
    assert "web1.conf:3" in said


def test_tasks_reach_the_hosts_of_the_inventory(house, tmp_path):
    path = tmp_path / "clients.strongroom.yml"
    path.write_text(yaml.safe_dump({"plugin": "strongroom.backup.director"}))
    options = ["-i", str(path), "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}"]
    said = ansible("ansible", "group_databases", "-m", "ansible.builtin.ping", *options, house=house, folder=tmp_path)
    assert "db1 | SUCCESS" in said
    assert "web1" not in said
