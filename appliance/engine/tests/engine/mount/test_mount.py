"""A mounted repository is the tree that was backed up, and goes away without a trace."""

import errno
import filecmp
import os
import random
import signal
import subprocess

import pytest

from engine.mount.conftest import is_mounted, mounted, wait_for
from kit.torture_tree import FEATURES, torture_tree
from kit.tree_compare import compare_trees
from strongroom.base.errors import UsageError

# Rows keep times as 64 bits of nanoseconds, which end in 2262.
BEYOND_OUR_TIMES = {"times-after-2038"}


def inside(place, tree, snapshot="latest"):
    return place / "hosts" / "web1" / snapshot / str(tree).strip("/")


def test_everything_linux_keeps_is_there(command, tmp_path):
    tree = tmp_path / "tree"
    wanted = tuple(name for name in FEATURES if name not in BEYOND_OUR_TIMES)
    with torture_tree(os.fsencode(tree), wanted) as made:
        assert len(made.features) > 20
        command.back_up(str(tree), "--host", "web1")
        with mounted(command, tmp_path / "place"):
            there = inside(tmp_path / "place", tree)
            differences = compare_trees(os.fsencode(tree), os.fsencode(there))
            # Whether an extent was only reserved is not kept; it reads as zeros all the same.
            assert [found for found in differences if b"preallocated" not in found.path] == []


@pytest.fixture
def tree(tmp_path):
    """A tree with what ordinary programs meet: links, holes, a large file, many names."""
    root = tmp_path / "tree"
    (root / "sub" / "deep").mkdir(parents=True)
    chance = random.Random(3)
    (root / "large").write_bytes(chance.randbytes(9_000_000))
    (root / "small").write_text("needle in a haystack\n")
    (root / "sub" / "empty").touch()
    (root / "link").symlink_to("sub/deep")
    os.link(root / "small", root / "sub" / "deep" / "twin")
    with open(root / "sparse", "wb") as file:
        file.write(chance.randbytes(70_000))
        file.truncate(40_000_000)
        file.seek(30_000_001)
        file.write(chance.randbytes(5_000))
    (root / "sub" / "private").write_text("secret\n")
    (root / "sub" / "private").chmod(0o600)
    return root


@pytest.mark.parametrize("threads", ["1", "4"])
def test_copies_made_by_cp_are_the_same(command, tmp_path, tree, threads):
    command.back_up(str(tree), "--host", "web1")
    with mounted(command, tmp_path / "place", "--threads", threads):
        there = inside(tmp_path / "place", tree)
        subprocess.run(["cp", "-a", str(there), str(tmp_path / "copied")], check=True)
    assert compare_trees(os.fsencode(tree), os.fsencode(tmp_path / "copied")) == []


def test_grep_and_find_see_what_is_there(command, tmp_path, tree):
    command.back_up(str(tree), "--host", "web1")
    with mounted(command, tmp_path / "place"):
        there = inside(tmp_path / "place", tree)
        grep = ["grep", "-rl", "needle", str(there)]
        found = subprocess.run(grep, capture_output=True, text=True, check=True)
        assert sorted(found.stdout.splitlines()) == [
            str(there / "small"), str(there / "sub" / "deep" / "twin")
        ]  # fmt: skip
        count = subprocess.run(
            ["find", str(there), "-samefile", str(there / "small")],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert len(count.stdout.splitlines()) == 2


def test_any_part_of_a_file_reads_as_in_the_source(command, tmp_path, tree):
    command.back_up(str(tree), "--host", "web1")
    chance = random.Random(11)
    with mounted(command, tmp_path / "place", "--cache-size", "1"):
        for name in ("large", "sparse"):
            with open(tree / name, "rb") as ours, \
                 open(inside(tmp_path / "place", tree) / name, "rb") as theirs:  # fmt: skip
                size = os.fstat(ours.fileno()).st_size
                for _ in range(150):
                    offset = chance.randrange(size + 10)
                    length = chance.choice([1, 100, 4096, 300_000])
                    expected = os.pread(ours.fileno(), length, offset)
                    assert os.pread(theirs.fileno(), length, offset) == expected
            assert filecmp.cmp(tree / name, inside(tmp_path / "place", tree) / name, shallow=False)


def test_a_directory_of_many_names_lists_each_once(command, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    names = [b"%06d" % (number * 7919 % 1_000_000) for number in range(40_000)]
    for name in names:
        os.mknod(os.fsencode(tree) + b"/" + name)
    command.back_up(str(tree), "--host", "web1")
    with mounted(command, tmp_path / "place"):
        there = os.fsencode(inside(tmp_path / "place", tree))
        assert os.listdir(there) == sorted(names)
        inodes = {entry.name: entry.inode() for entry in os.scandir(there)}
        assert len(set(inodes.values())) == len(names)
        for name in random.Random(5).sample(names, 200):
            assert os.stat(there + b"/" + name).st_ino == inodes[name]


def test_snapshots_stand_under_hosts_tags_and_ids(command, tmp_path):
    (tmp_path / "tree").mkdir()
    first = command.back_up(str(tmp_path / "tree"), "--host", "web1", "--tag", "daily")
    second = command.back_up(str(tmp_path / "tree"), "--host", "mail", "--tag", "daily,weekly")
    place = tmp_path / "place"
    with mounted(command, place):
        assert sorted(os.listdir(place)) == ["hosts", "ids", "tags"]
        assert sorted(os.listdir(place / "ids")) == sorted([first[:8], second[:8]])
        assert sorted(os.listdir(place / "hosts")) == ["mail", "web1"]
        assert sorted(os.listdir(place / "tags")) == ["daily", "weekly"]
        # Of several clients none is the latest: each could store one.
        assert len(os.listdir(place / "tags" / "daily")) == 2
        for path in ("hosts/mail/latest", "tags/weekly/latest"):
            assert (place / path / str(tmp_path).strip("/") / "tree").is_dir()
        with pytest.raises(FileNotFoundError):
            os.stat(place / "hosts" / "nobody")


def test_filters_narrow_what_is_shown(command, tmp_path):
    (tmp_path / "tree").mkdir()
    command.back_up(str(tmp_path / "tree"), "--host", "web1")
    command.back_up(str(tmp_path / "tree"), "--host", "mail")
    with mounted(command, tmp_path / "place", "--host", "mail"):
        assert os.listdir(tmp_path / "place" / "hosts") == ["mail"]
        assert "latest" in os.listdir(tmp_path / "place")
        assert len(os.listdir(tmp_path / "place" / "ids")) == 1


def test_new_snapshots_appear_and_forgotten_ones_go(command, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("first")
    first = command.back_up(str(tree), "--host", "web1")
    ids = tmp_path / "place" / "ids"
    with mounted(command, tmp_path / "place"):
        assert os.listdir(ids) == [first[:8]]
        (tree / "file").write_text("second")
        second = command.back_up(str(tree), "--host", "web1")
        assert wait_for(lambda: second[:8] in os.listdir(ids))
        assert (ids / second[:8] / str(tree).strip("/") / "file").read_text() == "second"
        command("forget", "--keep-last", "1")
        assert wait_for(lambda: os.listdir(ids) == [second[:8]])


def test_nothing_can_be_changed(command, tmp_path, tree):
    command.back_up(str(tree), "--host", "web1")
    with mounted(command, tmp_path / "place"):
        there = inside(tmp_path / "place", tree)
        for attempt in (
            lambda: open(there / "small", "a").close(),
            (there / "new").touch,
            (there / "small").unlink,
            lambda: (there / "small").chmod(0),
            lambda: (there / "sub").rename(there / "other"),
        ):
            with pytest.raises(OSError) as refused:
                attempt()
            assert refused.value.errno == errno.EROFS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unmounts_even_while_files_are_open(command, tmp_path, tree, number):
    command.back_up(str(tree), "--host", "web1")
    place = tmp_path / "place"
    with mounted(command, place) as process:
        descriptor = os.open(inside(place, tree) / "large", os.O_RDONLY)
        assert len(os.read(descriptor, 10)) == 10
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
        assert not is_mounted(place)
        # No one is left to hear of it.
        with pytest.raises(OSError, match="not connected"):
            os.close(descriptor)


def test_in_the_background_it_is_there_when_the_command_returns(command, tmp_path, tree):
    command.back_up(str(tree), "--host", "web1")
    place = tmp_path / "place"
    place.mkdir()
    (answer,) = command.objects("mount", str(place))
    assert answer["type"] == "mounted"
    process_id = answer["process_id"]
    try:
        assert is_mounted(place)
        assert (inside(place, tree) / "small").read_text() == "needle in a haystack\n"
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert wait_for(lambda: not os.path.exists(f"/proc/{process_id}"))


def test_a_place_that_is_none_is_refused(command, tmp_path):
    command("mount", str(tmp_path / "absent"), exit_code=UsageError.exit_code)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    command("mount", str(tmp_path / "full"), exit_code=UsageError.exit_code)
    command("mount", str(tmp_path / "full" / "file"), exit_code=UsageError.exit_code)
    assert not is_mounted(tmp_path / "full")


def test_damage_is_an_error_of_one_file(command, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    chance = random.Random(1)
    for name in ("one", "two"):
        (tree / name).write_bytes(chance.randbytes(3_000_000))
    command.back_up(str(tree), "--host", "web1", "--shards", "1")
    packs = [path for path in (command.repository / "packs").rglob("*") if path.is_file()]
    largest = max(packs, key=lambda path: path.stat().st_size)
    with open(largest, "r+b") as pack:
        pack.seek(largest.stat().st_size // 2)
        byte = pack.read(1)
        pack.seek(-1, os.SEEK_CUR)
        pack.write(bytes([byte[0] ^ 1]))
    with mounted(command, tmp_path / "place"):
        there = inside(tmp_path / "place", tree)
        outcomes = []
        for name in ("one", "two"):
            try:
                outcomes.append((there / name).read_bytes() == (tree / name).read_bytes())
            except OSError as error:
                outcomes.append(errno.errorcode[error.errno])
        assert sorted(map(str, outcomes)) == ["EIO", "True"]
        assert sorted(os.listdir(there)) == ["one", "two"]


def test_memory_stays_bounded(command, tmp_path):
    """Reading far more than the cache holds takes no more memory than the cache."""
    tree = tmp_path / "tree"
    tree.mkdir()
    chance = random.Random(2)
    for number in range(12):
        (tree / f"file{number}").write_bytes(chance.randbytes(16_000_000))
    command.back_up(str(tree), "--host", "web1")
    with mounted(command, tmp_path / "place", "--cache-size", "16") as process:
        for number in range(12):
            path = inside(tmp_path / "place", tree) / f"file{number}"
            assert filecmp.cmp(path, tree / f"file{number}", shallow=False)
        with open(f"/proc/{process.pid}/status") as lines:
            peak = next(line for line in lines if line.startswith("VmHWM"))
        assert int(peak.split()[1]) < 160 * 1024


def test_a_snapshot_that_cannot_be_read_is_named_and_the_others_are_shown(command, tmp_path, tree):
    for host in ("web1", "web2"):
        command.back_up(str(tree), "--host", host)
    (damaged,) = (
        file
        for file in command.repository.glob("snapshots/**/*")
        if file.is_file() and file.name in command.objects("snapshots", "--host", "web2")[0]["id"]
    )
    damaged.chmod(0o600)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    with mounted(command, tmp_path / "place") as process:
        assert (inside(tmp_path / "place", tree) / "small").read_text() == "needle in a haystack\n"
        assert os.listdir(tmp_path / "place" / "hosts") == ["web1"]
        assert damaged.name in process.stderr.readline()
    place = tmp_path / "other"
    place.mkdir()
    answer = command.run("mount", str(place), key_file=command.restore_key)
    try:
        assert is_mounted(place)
        assert damaged.name in answer.stderr
    finally:
        subprocess.run(["umount", str(place)], check=True)
