"""With the engine's command, as on a host."""

from __future__ import annotations

import os

import pytest
from ansible_collections.strongroom.backup.plugins.modules import configuration_files

AGENT = 'Client {\n  Name = "web1"\n  Shards = 2\n}\n'
DIRECTOR = 'Director {\n  Name = "vault-dir"\n  Password = unused\n  Address = "vault"\n}\n'


@pytest.fixture
def tree(tmp_path):
    for name, text in (("client/myself.conf", AGENT), ("director/vault-dir.conf", DIRECTOR)):
        path = tmp_path / "etc/agent.d" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path / "etc"


def test_a_file_is_written_and_the_same_again_changes_nothing(tree, run_module):
    text = AGENT.replace("Shards = 2", "Shards = 3")
    files = {"agent.d/client/myself.conf": text}
    told = run_module(configuration_files, path=str(tree), files=files)
    path = tree / "agent.d/client/myself.conf"
    assert (told["changed"], told["written"]) == (True, [str(path)])
    assert "Shards = 2" in told["diff"][0]["before"]
    assert path.read_text() == text
    assert path.stat().st_mode & 0o777 == 0o644
    assert not run_module(configuration_files, path=str(tree), files=files)["changed"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"agent.d/client/myself.conf": AGENT.replace("2", "many")}, "Shards"),
        # Each is right; both together are not.
        ({"agent.d/client/other.conf": AGENT}, "Client"),
    ],
)
def test_what_the_check_refuses_changes_nothing(tree, run_module, files, said):
    files = {"agent.d/director/another.conf": DIRECTOR.replace("vault-dir", "another"), **files}
    told = run_module(configuration_files, path=str(tree), files=files)
    assert told["failed"]
    assert said in told["msg"]
    # It is told where the file will be, not where it was tried out.
    assert str(tree / next(name for name in files if "client" in name)) in told["msg"]
    assert sorted(path.name for path in tree.rglob("*.conf")) == ["myself.conf", "vault-dir.conf"]
    assert (tree / "agent.d/client/myself.conf").read_text() == AGENT


def test_a_file_without_which_the_rest_is_right_is_removed(tree, run_module):
    other = tree / "agent.d/director/other.conf"
    other.write_text(DIRECTOR.replace("vault-dir", "other"))
    told = run_module(configuration_files, path=str(tree), absent=["agent.d/director/other.conf"])
    assert told["removed"] == [str(other)]
    assert not other.exists()
    again = run_module(configuration_files, path=str(tree), absent=["agent.d/director/other.conf"])
    assert not again["changed"]


def test_check_mode_says_what_would_change_and_works_without_the_engine(tree, run_module):
    arguments = {"path": str(tree), "files": {"agent.d/client/myself.conf": AGENT.replace("2", "3")}}
    told = run_module(configuration_files, check=True, command="not-installed", **arguments)
    assert told["changed"]
    assert (tree / "agent.d/client/myself.conf").read_text() == AGENT
    told = run_module(configuration_files, command="not-installed", **arguments)
    assert "not installed" in told["msg"]


@pytest.mark.parametrize("name", ["../x.conf", "/etc/x.conf", "agent.d/key.pem"])
def test_a_path_elsewhere_is_refused(tree, run_module, name):
    assert run_module(configuration_files, path=str(tree), files={name: ""})["failed"]


def test_a_folder_that_is_missing_can_be_entered_whatever_the_umask(tree, run_module):
    text = DIRECTOR.replace("director", "Director")
    (tree / "agent.d/director/vault-dir.conf").unlink()
    (tree / "agent.d/director").rmdir()
    before = os.umask(0o077)
    try:
        told = run_module(configuration_files, path=str(tree), files={"agent.d/director/vault-dir.conf": text})
    finally:
        os.umask(before)
    assert told["changed"]
    assert (tree / "agent.d/director").stat().st_mode & 0o777 == 0o755
