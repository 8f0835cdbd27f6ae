"""The same commands wherever a repository is."""

import os
import re
import shutil
import threading
import time
from contextlib import closing
from functools import partial

import pytest

from kit import object_server
from kit.faulty_link import FaultyLink
from kit.json_output import objects_of
from kit.ssh_server import ssh_server
from strongroom.base.errors import RightError
from strongroom.cli.measure.testbed.link import slow_link
from strongroom.engine.stores.place import place_of
from strongroom.engine.stores.s3_client import S3Client


@pytest.fixture(params=["s3", pytest.param("sftp", marks=pytest.mark.slow), "ssh"])
def elsewhere(request, tmp_path):
    """The environment for a repository that is not in a folder."""
    if request.param == "s3":
        with pytest.MonkeyPatch.context() as environment:
            for name, value in object_server.ENVIRONMENT.items():
                environment.setenv(name, value)
            for server in object_server.seaweedfs(tmp_path / "server"):
                yield object_server.ENVIRONMENT | {"STRONGROOM_REPOSITORY": server.text()}
        return
    for server in ssh_server(tmp_path / "server", {"key": ""}):
        yield {
            "PATH": f"{server.programs('key')}:{os.environ['PATH']}",
            "STRONGROOM_REPOSITORY": f"{request.param}://there{tmp_path}/elsewhere",
        }


def copied(command):
    """A folder with a repository of the same passphrase."""
    folder = command.folder / "copied"
    password = ("--password-file", str(command.passphrase_file))
    command.run("init", "--repo", str(folder), *password)
    return folder


def test_backups_by_several_processes_are_restored_checked_and_pruned(command, elsewhere, tree):
    for number in range(300):
        folder = tree / f"folder{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / f"file{number}").write_bytes(os.urandom(9000))

    def run(*words, **options):
        password = ("--password-file", str(command.passphrase_file))
        return command.run(*words, *password, **elsewhere, **options)

    run("init")
    run("backup", str(tree), "--shards", "2")
    (tree / "new").write_text("new")
    run("backup", str(tree), "--shards", "2")
    target = command.folder / "back"
    run("restore", "latest", "--target", str(target))
    restored = {path.name: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert restored == {path.name: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    run("forget", "--keep-last", "1", "--prune")
    run("check", "--read-data", "all")
    run("copy", "--from-repo", elsewhere["STRONGROOM_REPOSITORY"], "--repo", str(copied(command)))
    assert "is already a repository" in run("init", exit_code=11).stderr


def test_a_place_with_other_files_is_refused_and_left_as_it_is(command, elsewhere, tmp_path):
    place = elsewhere["STRONGROOM_REPOSITORY"]
    scheme = place.partition(":")[0]
    if scheme == "s3":
        with closing(S3Client(place_of(place))) as client:
            client.make_bucket()
            client.put("repository/holiday/beach.jpg", b"an image")
    else:
        (tmp_path / "elsewhere" / "holiday").mkdir(parents=True)
    password = ("--password-file", str(command.passphrase_file))
    # What serves the folder over ssh ends with that, so the connection does.
    exit_code = 32 if scheme == "ssh" else 11
    refused = command.run("init", *password, **elsewhere, exit_code=exit_code)
    assert "is not a repository and holds something else (holiday)" in refused.stderr
    if scheme == "s3":
        with closing(S3Client(place_of(place))) as client:
            keys = [key for key, _ in client.part_of_list("repository/", "")[0]]
        assert keys == ["repository/holiday/beach.jpg"]
    else:
        assert os.listdir(tmp_path / "elsewhere") == ["holiday"]


# What an unchanged backup may ask of a store: its price, and its time at a distance.
MOST_REQUESTS = {"s3": 30, "sftp": 130, "ssh": 35}


def test_an_unchanged_backup_costs_a_handful_of_requests(command, elsewhere, tree):
    for number in range(300):
        (tree / f"file{number}").write_bytes(os.urandom(2000))

    password = ("--password-file", str(command.passphrase_file))

    def run(*words):
        return command.run(*words, *password, "--json", "-v", **elsewhere)

    def traffic(*words):
        last = objects_of(run(*words).stdout)[-1]
        assert last["type"] == "traffic"
        assert last["repository"] == elsewhere["STRONGROOM_REPOSITORY"]
        return last["requests"], last["sent_bytes"], last["received_bytes"]

    traffic("init")
    _, sent_bytes, _ = traffic("backup", str(tree), "--shards", "2")
    assert 600_000 < sent_bytes < 700_000, "of both shards"
    requests, sent_bytes, received_bytes = traffic("backup", str(tree), "--shards", "2")
    kind = elsewhere["STRONGROOM_REPOSITORY"].partition(":")[0]
    if kind == "s3":
        imported = command.run(
            "snapshots", *password, **elsewhere, PYTHONPROFILEIMPORTTIME="1"
        ).stderr
        assert "s3_client" in imported
        assert "botocore" not in imported, "it takes a third of a second"
    assert requests <= MOST_REQUESTS[kind]
    assert sent_bytes < 20_000
    assert received_bytes < 100_000
    assert "1 request" in run("snapshots").stderr or " requests, " in run("snapshots").stderr


# So long that a busy machine does not begin a request after the answer to one beside it.
FAR_MILLISECONDS = 250.0


@pytest.fixture(params=["s3", pytest.param("ssh", marks=pytest.mark.slow)])
def near_and_far(request, tmp_path):
    """The environments for a repository beside us, and for the same far away."""
    if request.param == "s3":
        with pytest.MonkeyPatch.context() as environment:
            for name, value in object_server.ENVIRONMENT.items():
                environment.setenv(name, value)
            for server in object_server.seaweedfs(tmp_path / "server"):
                with slow_link(server.port, FAR_MILLISECONDS) as port:
                    near = server.text()
                    far = near.replace(f":{server.port}", f":{port}")
                    yield tuple(
                        object_server.ENVIRONMENT | {"STRONGROOM_REPOSITORY": place}
                        for place in (near, far)
                    )
        return
    for server in ssh_server(tmp_path / "server", {"key": ""}):
        with slow_link(server.port, FAR_MILLISECONDS) as port:
            known_at(server, port)
            yield tuple(
                {
                    "PATH": f"{server.programs('key')}:{os.environ['PATH']}",
                    "STRONGROOM_REPOSITORY": f"ssh://there:{at}{tmp_path}/elsewhere",
                }
                for at in (server.port, port)
            )


def known_at(server, port):
    """Have the user know an ssh server at another port, too."""
    known = server.folder / "known_hosts"
    host = (server.folder / "host_key.pub").read_text()
    known.write_text(f"{known.read_text()}[127.0.0.1]:{port} {host}")


# What one file may ask of a store, one after the other and in all.
MOST_ROUND_TRIPS = 8
MOST_REQUESTS_OF_A_FILE = {"s3": 18, "ssh": 22}


def test_one_file_takes_few_round_trips(command, near_and_far, tree):
    near, far = near_and_far
    for number in range(300):
        (tree / f"file{number}").write_bytes(os.urandom(2000))
    password = ("--password-file", str(command.passphrase_file))
    command.run("init", *password, **near)
    for number in range(3):
        (tree / "changed").write_text(f"text {number}")
        command.run("backup", str(tree), *password, **near)
    # A place has a cache of its own: the first reading makes that of the second.
    shutil.rmtree(command.folder / "home/.cache")
    kind = far["STRONGROOM_REPOSITORY"].partition(":")[0]
    for _ in ("without a cache", "with one"):
        dumped = command.run("dump", "latest", str(tree / "file7"), *password, "-v", **far)
        found = re.search(r"(\d+) requests?, (\d+) round trips?", dumped.stderr)
        assert int(found[2]) <= MOST_ROUND_TRIPS
        assert int(found[1]) <= MOST_REQUESTS_OF_A_FILE[kind]


def fall_after(link, carried_bytes):
    fall_when(link, lambda: link.carried_bytes > carried_bytes)


def fall_when(link, has_begun):
    while not has_begun():
        time.sleep(0.01)
    link.go_down()
    time.sleep(3)
    link.come_up()


APPEND_ONLY = 'restrict,command="strongroom serve --append-only --path {}"'


@pytest.mark.parametrize(
    ("scheme", "rights"),
    [
        ("sftp", ""),
        pytest.param("ssh", "", marks=pytest.mark.slow),
        ("ssh", APPEND_ONLY),
    ],
)
def test_a_backup_continues_when_its_server_is_back(command, tmp_path, tree, scheme, rights):
    for number in range(40):
        (tree / f"file{number}").write_bytes(os.urandom(1 << 20))
    place = tmp_path / "elsewhere"
    for server in ssh_server(tmp_path / "server", {"key": rights.format(place), "all": ""}):
        with FaultyLink(server.port) as link:
            known_at(server, link.port)
            words = ("--password-file", str(command.passphrase_file))
            words += ("--repo", f"{scheme}://there:{link.port}{place}")
            path = f"{server.programs('key')}:{os.environ['PATH']}"
            everything = f"{server.programs('all')}:{os.environ['PATH']}"
            command.run("init", *words, PATH=everything)
            before = link.carried_bytes
            falling = threading.Thread(target=fall_after, args=(link, before + (4 << 20)))
            falling.start()
            command.run("backup", str(tree), "--shards", "2", *words, PATH=path)
            falling.join()
            # Nothing that was stored before the fall was sent twice.
            assert link.carried_bytes - before < 2.2 * (40 << 20)
            target = command.folder / "back"
            falling = threading.Thread(target=fall_when, args=(link, target.exists))
            falling.start()
            command.run("restore", "latest", "--target", str(target), *words, PATH=path)
            falling.join()
            restored = {file.name: file.read_bytes() for file in target.rglob("file*")}
            assert restored == {file.name: file.read_bytes() for file in tree.iterdir()}
            command.run("check", "--read-data", "all", *words, PATH=everything)
            exit_code = RightError.exit_code if rights else 0
            command.run("forget", "latest", *words, PATH=path, exit_code=exit_code)


def test_a_copy_by_a_key_that_only_adds_is_made_once(command, tmp_path, tree):
    (tree / "file").write_bytes(os.urandom(3 << 20))
    place = tmp_path / "elsewhere"
    for server in ssh_server(tmp_path / "server", {"key": APPEND_ONLY.format(place), "all": ""}):
        near = command.folder / "near"
        password = ("--password-file", str(command.passphrase_file))
        there = (*password, "--repo", f"ssh://there{place}")
        path = f"{server.programs('key')}:{os.environ['PATH']}"
        everything = f"{server.programs('all')}:{os.environ['PATH']}"
        command.run("init", *password, "--repo", str(near))
        command.run("init", *there, PATH=everything)
        for _ in range(2):
            command.run("backup", str(tree), *password, "--repo", str(near))
        for _ in range(2):
            command.run("copy", "--from-repo", str(near), *there, PATH=path)
        stored = {one: one.stat().st_size for one in (place / "packs").rglob("*") if one.is_file()}
        assert 3 << 20 < sum(stored.values()) < 4 << 20
        listed = command.run("snapshots", *there, "--json", PATH=path)
        assert len(objects_of(listed.stdout)) == 2
        target = command.folder / "back"
        command.run("restore", "latest", "--target", str(target), *there, PATH=path)
        (file,) = target.rglob("file")
        assert file.read_bytes() == (tree / "file").read_bytes()
        command.run("forget", "latest", *there, PATH=path, exit_code=RightError.exit_code)


def test_a_copy_in_a_bucket_with_object_lock_is_locked(command, tmp_path, tree, monkeypatch):
    for name, value in object_server.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (tree / "file").write_bytes(os.urandom(3 << 20))
    near = command.folder / "near"
    password = ("--password-file", str(command.passphrase_file))
    for server in object_server.seaweedfs(tmp_path / "server"):
        there = (*password, "--repo", server.text(bucket="locked-copies"))
        run = partial(command.run, **object_server.ENVIRONMENT)
        run("init", *password, "--repo", str(near))
        run("init", *there, "--lock-for", "1d", "--lock-mode", "compliance")
        run("backup", str(tree), *password, "--repo", str(near))
        run("copy", "--from-repo", str(near), *there)
        run("check", "--locks", *there)
        (copy,) = objects_of(run("snapshots", *there, "--json").stdout)
        with closing(S3Client(server.place(bucket="locked-copies"))) as client:
            keys = [f"repository/snapshots/{copy['id']}"]
            keys += [key for key, _ in client.part_of_list("repository/packs/", "")[0]]
            for key in keys:
                assert client.head(key).lock_mode == "COMPLIANCE"
