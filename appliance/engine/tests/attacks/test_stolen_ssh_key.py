"""Anyone who steals the ssh key of an append-only repository: what can be read, removed, stopped?

The key's forced command is `strongroom serve --append-only`; the thief has the key, perhaps the
passphrase too, and any program.
"""

import os
import shutil
import socket
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest

from kit.command import PASSPHRASE
from kit.planted_pack import plant
from kit.ssh_server import ssh_server
from strongroom.base.errors import (
    CheckFailedError,
    ObjectMissingError,
    RightError,
    StoreError,
    StrongroomError,
)
from strongroom.engine.content.digests import object_name
from strongroom.engine.prune.sweep import SWEEP_LEASE
from strongroom.engine.repository.index.objects import write_index_object
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.place import place_of
from strongroom.engine.stores.store import KINDS
from strongroom.net.storage.place import open_ssh

PATH = os.environ["PATH"]
CONTENT = b"content of a file" * 1000


@pytest.fixture(scope="module")
def ssh(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ssh")
    forced = f'restrict,command="strongroom serve --append-only --path {folder}/repository"'
    yield from ssh_server(folder, {"stolen": forced, "full": ""})


@pytest.fixture
def command(command, ssh, tree):
    """The owner: makes a backup with the key that is stolen later; has the other one, too."""
    (tree / "file").write_bytes(CONTENT)
    subprocess.run(["rm", "-rf", str(ssh.folder / "repository")], check=True)
    environment = owners(ssh)
    command.run("init", "--password-file", str(command.passphrase_file), **environment)
    thiefs = environment | {"PATH": f"{ssh.programs('stolen')}:{PATH}"}
    password = ("--password-file", str(command.passphrase_file))
    command.run("backup", str(tree), *password, "--tag", "first", **thiefs)
    return command


def place(ssh):
    return f"ssh://there{ssh.folder}/repository"


def owners(ssh):
    return {"PATH": f"{ssh.programs('full')}:{PATH}", "STRONGROOM_REPOSITORY": place(ssh)}


@pytest.fixture
def stolen(command, ssh, monkeypatch):
    """The repository as the thief has it; the path that it asks for is not checked."""
    monkeypatch.setenv("PATH", f"{ssh.programs('stolen')}:{PATH}")
    store = open_ssh(place_of("ssh://there/etc"))
    yield store
    store.close()


@pytest.fixture
def thief(stolen, command):
    """The repository as a thief opens it who has the passphrase, too."""
    return Repository.open(stolen, PASSPHRASE.encode()).for_client(socket.gethostname())


@pytest.fixture
def disk(ssh, command):
    return LocalStore(str(ssh.folder / "repository"))


def contents(disk):
    return {
        (kind, info.name): disk.get(kind, info.name) for kind in KINDS for info in disk.list(kind)
    }


def test_nothing_that_is_there_can_be_removed_or_changed(stolen, disk):
    disk.put_new("leases", "ab" * 16, b"of a backup that runs")
    before = contents(disk)
    for kind, name in before:
        try:
            stolen.delete(kind, name)
        except RightError:
            pass
        else:
            assert kind == "leases"
        with pytest.raises((RightError, ObjectMissingError)):
            stolen.replace(kind, name, b"other")
        with pytest.raises(StrongroomError):
            stolen.put(kind, name, b"other")
    assert contents(disk) == before


def test_nothing_can_be_added_that_would_hide_or_bar_what_is_there(stolen, disk):
    before = contents(disk)
    for kind in ("keys", "tombstones", "tickets"):
        with pytest.raises(RightError):
            stolen.put(kind, object_name(b"forged"), b"forged")
    with pytest.raises(RightError):
        stolen.put_new("leases", SWEEP_LEASE, b"forged")
    with pytest.raises(RightError):
        stolen.prepare()
    names = [name for kind, name in before if kind == "snapshots"]
    with pytest.raises(RightError):
        stolen.vouch("snapshots", names, sound=False)
    assert contents(disk) == before


def test_only_what_the_same_job_has_stored_is_taken_back(stolen, disk):
    stolen.put("snapshots", object_name(b"new"), b"new")
    stolen.put_new("leases", "cd" * 16, b"mine")
    again = open_ssh(place_of("ssh://there/etc"))
    with pytest.raises(RightError):
        again.delete("snapshots", object_name(b"new"))
    with pytest.raises(ObjectMissingError):
        again.replace("leases", "cd" * 16, b"another's")
    again.delete("leases", "cd" * 16)
    assert disk.get("leases", "cd" * 16) == b"mine"
    again.close()
    # A job whose connection broke knows a secret.
    resumed = stolen.reopen()
    with pytest.raises(RightError):
        resumed.delete("snapshots", object_name(b"new"))
    resumed.replace("leases", "cd" * 16, b"renewed")
    resumed.close()
    stolen.delete("snapshots", object_name(b"new"))
    stolen.delete("leases", "cd" * 16)
    assert {kind for kind, _ in contents(disk)} == {"config", "keys", "packs", "index", "snapshots"}


def test_the_key_starts_no_shell_and_reads_no_file(command, ssh):
    programs = ssh.programs("stolen")
    for words in (("there", "cat", "/etc/hostname"), ("-s", "there", "sftp"), ("there",)):
        ended = subprocess.run(
            [str(programs / "ssh"), "-T", *words], input=b"x" * 64, capture_output=True, check=False
        )
        assert ended.stdout[:4] in (b"SRHI", b"")
        assert b"hostname" not in ended.stdout


@pytest.mark.parametrize("way", ["folder", pytest.param("ssh", marks=pytest.mark.slow)])
def test_a_false_copy_is_no_reason_for_the_owner_to_remove_a_true_one(
    thief, command, ssh, tree, way
):
    (tree / "goes").write_text("of a snapshot that goes")
    run = partial(as_owner, command, ssh, way)
    run("backup", str(tree))
    for number in range(8):
        lie = os.urandom(len(CONTENT) - 1) + bytes([number])
        thief.write_index([plant(thief, [CONTENT], lie)])
    run("forget", "latest")
    for _ in range(2):
        run("prune", "--repack-below", "100%", "--max-unused", "0", "--grace", "0")
        assert restored(run, command) == CONTENT
    # Told apart, the false ones are gone for everybody.
    found = run("vouch", exit_code=CheckFailedError.exit_code)
    assert found.stdout.count("false: packs") == 8
    run("prune", "--repack-below", "100%", "--max-unused", "0", "--grace", "0")
    run("check", "--read-data", "all")
    assert restored(run, command) == CONTENT


def test_an_index_of_the_thiefs_replaces_none(thief, command, ssh, disk):
    run = partial(as_owner, command, ssh, "folder")
    there = [info.name for info in disk.list("index")]
    lie = plant(thief, [CONTENT], os.urandom(len(CONTENT)))
    write_index_object(thief.store, thief.key, thief.writer.client_id, [lie], there, thief.cipher)
    run("prune", "--grace", "0")
    assert {info.name for info in disk.list("index")} > set(there)
    assert restored(run, command) == CONTENT


def test_a_full_disk_gives_no_object_a_name_without_its_entry(stolen, disk, ssh, monkeypatch):
    # The database fails first: nothing may be stored that counts as the owner's own.
    book = ssh.folder / "repository" / "provenance" / "objects.sqlite"
    stolen.put("snapshots", object_name(b"one"), b"one")
    with closing(sqlite3.connect(book)) as database:
        database.execute(
            "create trigger full before insert on objects begin "
            "select raise(abort, 'database or disk is full'); end"
        )
        database.commit()
    with pytest.raises(StoreError, match="full"):
        stolen.put("packs", object_name(b"two"), b"two")
    assert object_name(b"two") not in {info.name for info in disk.list("packs")}


def test_what_was_there_before_the_list_is_verified_once(stolen, command, ssh, disk):
    run = partial(as_owner, command, ssh, "folder")
    run("vouch")
    shutil.rmtree(ssh.folder / "repository" / "provenance")
    with closing(stolen.reopen()) as opened:
        assert opened.unverified("packs") == {info.name for info in disk.list("packs")}
    run("vouch")
    with closing(stolen.reopen()) as opened:
        assert not opened.unverified("packs")


def test_many_begin_a_list_at_once(stolen, ssh):
    shutil.rmtree(ssh.folder / "repository" / "provenance")
    stores = [stolen.reopen() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda store: store.unverified("packs"), stores))
    assert len(found[0]) == 2
    assert set(found) == {found[0]}
    for store in stores:
        store.close()


def test_what_the_thief_adds_stops_no_job_and_loses_nothing(stolen, command, ssh, tree):
    for kind in ("packs", "index", "snapshots"):
        stolen.put(kind, object_name(kind.encode() * 30), kind.encode() * 30)
    stolen.close()
    for key in ("stolen", "full"):
        password = ("--password-file", str(command.passphrase_file))
        path = {"PATH": f"{ssh.programs(key)}:{PATH}"}
        command.run("backup", str(tree), *password, **(owners(ssh) | path))
    for way in ("folder", "ssh"):
        run = partial(as_owner, command, ssh, way)
        run("backup", str(tree))
        assert restored(run, command) == CONTENT
    assert "false: packs" in run("vouch", exit_code=CheckFailedError.exit_code).stdout
    run("repair")
    run("check", "--read-data", "all")


def as_owner(command, ssh, way, *words, **options):
    """The owner's command, on the host of the repository or over ssh."""
    password = ("--password-file", str(command.passphrase_file))
    place = {} if way == "ssh" else {"STRONGROOM_REPOSITORY": f"{ssh.folder}/repository"}
    return command.run(*words, *password, **(owners(ssh) | place), **options)


def restored(run, command):
    """What the first snapshot gives back for the file."""
    target = command.folder / "back"
    shutil.rmtree(target, ignore_errors=True)
    run("restore", "latest", "--tag", "first", "--target", str(target))
    (found,) = target.rglob("file")
    return found.read_bytes()
