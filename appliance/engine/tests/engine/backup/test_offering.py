"""Which files a backup offers to share: public ones below the folders named, and nothing else."""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.offering_site import OfferingSite
from kit.restless_mount import mounted_restless_file
from kit.tiny_backup import new_repository
from kit.tree_removal import remove_tree
from kit.user import User
from strongroom.engine.sources.registry import open_source
from strongroom.engine.stores.local import LocalStore
from strongroom.sources.source import SourceRequest, Stream

# Longer than the time in which a file does not count as unchanged.
SETTLING_SECONDS = 0.1
LARGE_BYTES = 3 << 20


@pytest.fixture
def site(folder: Path) -> Iterator[OfferingSite]:
    repository = new_repository(LocalStore(str(folder / "repository")))
    yield OfferingSite(repository)
    repository.close()


def write(path: Path, mode: int = 0o644, data: bytes | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.fsencode(path) if data is None else data)
    path.chmod(mode)
    return path


def noise(seed: int, size_bytes: int) -> bytes:
    return random.Random(seed).randbytes(size_bytes)


def settle() -> None:
    time.sleep(SETTLING_SECONDS)


# Modes of three levels of directories and of the files in them, of which the owner may always
# read all; and the folders to share, as paths of such directories.
DIRECTORY_MODES = st.sampled_from([0o755, 0o711, 0o701, 0o700, 0o750, 0o754, 0o1777])
FILE_MODES = st.sampled_from([0o644, 0o640, 0o604, 0o600, 0o755, 0o711, 0o4755, 0o620])
PLACES = st.sampled_from(["", "a", "b", "a/a", "a/b", "b/a", "b/b"])
SHAPES = st.tuples(
    st.dictionaries(PLACES, DIRECTORY_MODES),
    st.dictionaries(st.tuples(PLACES, st.sampled_from(["f", "g"])), FILE_MODES, min_size=1),
    st.lists(st.sampled_from(["", "a", "a/b", "b", "b/b/f", "link", "c"]), max_size=3),
)


def shape_tree(tree: Path, shape: object) -> tuple[str, ...]:
    """Give a tree the modes of a shape; returns the folders to share."""
    directories, files, below = shape  # type: ignore[misc]
    for place in ("a/a", "a/b", "b/a", "b/b"):
        (tree / place).mkdir(parents=True, exist_ok=True)
    for (place, name), mode in files.items():
        path = tree / place / name
        if not path.exists():
            path.write_bytes(os.fsencode(path))
        path.chmod(mode)
    for place in ("", "a", "b", "a/a", "a/b", "b/a", "b/b"):
        (tree / place).chmod(directories.get(place, 0o755))
    if not (tree / "link").is_symlink():
        (tree / "link").symlink_to("a")
    return tuple(f"{tree}/{place}".rstrip("/") for place in below)


def offered_by_reference(tree: Path, below: tuple[str, ...]) -> set[bytes]:
    """The rule again, file by file."""
    found = set()
    for path in tree.rglob("*"):
        above = list(path.parents)
        if (
            not path.is_symlink()
            and path.is_file()
            and path.stat().st_mode & 0o004
            and all(one.stat().st_mode & 0o001 for one in above)
            and any(Path(folder) in above for folder in below)
        ):
            found.add(os.fsencode(path))
    return found


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shapes=st.lists(SHAPES, min_size=1, max_size=3))
def test_public_files_below_the_folders_are_offered_and_no_others(
    site: OfferingSite, public_folder: Path, shapes: list[object]
):
    """Also when modes and folders have changed since the backup that is compared with."""
    tree = public_folder / "tree"
    tree.mkdir()
    try:
        for shape in shapes:
            below = shape_tree(tree, shape)
            report = site.back_up(tree, below=below)
            assert site.offered(report) == offered_by_reference(tree, below)
    finally:
        remove_tree(os.fsencode(tree))


def test_what_is_no_public_regular_file_is_not_offered(site: OfferingSite, public_folder: Path):
    usr, etc = public_folder / "usr", public_folder / "etc"
    public = write(usr / "lib/public")
    private = write(usr / "lib/private", 0o640)
    hidden = write(usr / "hidden/file")
    hidden.parent.chmod(0o700)
    elsewhere = write(etc / "passwd")
    secret = write(public_folder / "secret/key", 0o600, b"the key")
    (usr / "link-to-file").symlink_to(secret)
    (usr / "link-to-folder").symlink_to(etc)
    os.mkfifo(usr / "pipe")
    report = site.back_up(usr, etc, secret.parent, below=(str(usr),))
    stored = site.stored(report)
    assert stored.keys() == {
        os.fsencode(path) for path in (public, private, hidden, elsewhere, secret)
    }
    assert site.offered(report) == {os.fsencode(public)}
    # Listings hold names and modes.
    owner = report.snapshot.owner  # type: ignore[union-attr]
    listings = site.entries(owner, listings=True)
    assert listings
    assert not any(entry.offered for entry in listings)


def test_a_folder_behind_a_link_is_shared_by_its_real_path(site: OfferingSite, public_folder: Path):
    real = write(public_folder / "usr/bin/tool")
    (public_folder / "bin").symlink_to("usr/bin")
    through_link = site.back_up(f"{public_folder}/bin/", below=(f"{public_folder}/bin",))
    assert site.stored(through_link).keys() == {os.fsencode(real)}
    assert site.offered(through_link) == set()
    by_path = site.back_up(f"{public_folder}/bin/", below=(f"{public_folder}/usr",))
    assert site.offered(by_path) == {os.fsencode(real)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_offered_is_what_everybody_may_read_whatever_an_acl_says(
    site: OfferingSite, public_folder: Path
):
    def acl(others: int, mask: int) -> bytes:
        nobody = 0xFFFFFFFF
        entries = ((1, 7, nobody), (2, 7, 1), (4, 5, nobody), (0x10, mask, nobody))
        packed = [struct.pack("<HHI", *one) for one in (*entries, (0x20, others, nobody))]
        return struct.pack("<I", 2) + b"".join(packed)

    for name, others, mask in (("open", 5, 0), ("shut", 0, 7)):
        file = write(public_folder / f"file-{name}")
        os.setxattr(file, "system.posix_acl_access", acl(others, mask))
        below = write(public_folder / f"folder-{name}/file")
        os.setxattr(below.parent, "system.posix_acl_access", acl(others, mask))
    report = site.back_up(public_folder, below=(str(public_folder),))
    readable = {path for path in site.stored(report) if readable_to_nobody(path)}
    assert readable == {
        os.fsencode(public_folder / one) for one in ("file-open", "folder-open/file")
    }
    assert site.offered(report) == readable


def readable_to_nobody(path: bytes) -> bool:
    """Whether a user of no group can open the file."""
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.close(os.open(path, os.O_RDONLY))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


class PublicStream:
    """A stream that calls itself readable to everybody."""

    name = b"dump"
    mode = 0o644

    def __init__(self) -> None:
        self._left = [b"row " * 1000]

    def readinto(self, buffer: memoryview) -> int:
        data = self._left.pop() if self._left else b""
        buffer[: len(data)] = data
        return len(data)

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


class StreamSource:
    def paths(self) -> tuple[bytes, ...]:
        return ()

    def streams(self) -> Iterator[Stream]:
        yield PublicStream()


def test_streams_and_commands_are_not_offered(site: OfferingSite):
    for source in (
        StreamSource(),
        open_source("command", SourceRequest((b"echo", b"content"), b"dump")),
    ):
        report = site.back_up(below=("/",), source=source)
        assert site.stored(report).keys() == {b"/dump"}
        assert site.offered(report) == set()


@pytest.mark.parametrize(("shards", "scan_threads"), [(1, 0), (2, 0), (1, 4)])
def test_two_clients_have_equal_ids_of_what_both_offer_and_of_nothing_else(
    site: OfferingSite, public_folder: Path, shards: int, scan_threads: int
):
    """Small files, files cut by content, and files that are read by another shard."""
    usr = public_folder / "usr"
    for seed, size in enumerate((10, 5000, 600_000, LARGE_BYTES, 18 << 20)):
        for mode in (0o644, 0o640):
            write(usr / f"{size}-{mode:o}", mode, noise(seed, size))
        write(public_folder / "srv" / f"{size}", 0o644, noise(seed, size))
    stored = [
        site.stored(
            site.back_up(
                public_folder,
                host=host,
                below=(str(usr),),
                shards=shards,
                scan_threads=scan_threads,
            )
        )
        for host in ("web1", "web2")
    ]
    assert stored[0].keys() == stored[1].keys()
    for path, one in stored[0].items():
        assert one.offered == path.endswith(b"-644"), path
        if one.offered:
            assert one == stored[1][path]
        else:
            assert not set(one.chunk_ids) & set(stored[1][path].chunk_ids)
    # Every key cuts a large file at other places.
    shared, private = (os.fsencode(usr / f"{18 << 20}-{mode}") for mode in ("644", "640"))
    cuts = {one[private].lengths for one in stored} | {stored[0][shared].lengths}
    assert len(cuts) == 3


def test_what_changed_while_it_was_read_is_not_offered(site: OfferingSite, public_folder: Path):
    """No one knows what its mode was when it held what was read."""
    usr = public_folder / "usr"
    usr.mkdir()
    with mounted_restless_file(usr):
        report = site.back_up(usr, below=(str(usr),))
    assert site.stored(report).keys() == {os.fsencode(usr / name) for name in ("busy", "calm")}
    assert site.offered(report) == {os.fsencode(usr / "calm")}


def test_slices_of_a_wide_directory_are_offered_too(site: OfferingSite, public_folder: Path):
    usr = public_folder / "usr"
    usr.mkdir()
    for number in range(17_000):
        os.close(os.open(usr / f"{number}", os.O_CREAT | os.O_WRONLY, 0o644))
    wanted = {os.fsencode(write(usr / name)) for name in ("0", "9999-more", "zzz")}
    write(usr / "5-private", 0o600)
    for _ in range(2):
        assert site.offered(site.back_up(public_folder, below=(str(usr),))) == wanted
        settle()


def test_equal_folders_give_equal_blocks_wherever_the_backup_began(
    site: OfferingSite, public_folder: Path
):
    usr = public_folder / "usr"
    for number in range(1500):
        write(usr / f"{number:04}", data=noise(number, 8000))
    snapshots = []
    for host in ("web1", "web2"):
        snapshots.append(site.back_up(public_folder, host=host, below=(str(usr),)).snapshot)
        # More files in front, and private ones everywhere, for the next client.
        for number in range(3):
            write(usr / f"+{number}", data=noise(2000 + number, 50_000))
        for number in range(0, 1500, 10):
            write(usr / f"{number:04}-private", 0o600)
    blocks = [
        {entry.block_id for entry in site.entries(one.owner) if entry.offered}
        for one in snapshots
        if one is not None
    ]
    # Where blocks end depends on the keys, which are random; usually all but two are equal.
    assert len(blocks[0] & blocks[1]) >= len(blocks[0]) / 2 > 4


def test_unchanged_files_keep_their_references(site: OfferingSite, public_folder: Path):
    write(public_folder / "usr/public")
    write(public_folder / "usr/private", 0o600)
    write(public_folder / "srv/file")
    settle()
    below = (str(public_folder / "usr"),)
    first = site.back_up(public_folder, below=below)
    second = site.back_up(public_folder, below=below)
    assert (first.files_read, second.files_read, second.new_chunks) == (3, 0, 0)
    assert site.stored(first) == site.stored(second)


def test_what_is_public_no_more_is_read_again_under_the_clients_own_keys(
    site: OfferingSite, public_folder: Path
):
    """By its own mode, a directory's above, the folders, or by moving; only what is concerned."""
    usr = public_folder / "usr"
    files = [write(usr / name) for name in ("a/one", "a/two", "b/x/three", "c/four")]
    one, two, three, four = (os.fsencode(path) for path in files)
    settle()

    def offered(*below: Path) -> tuple[set[bytes], int]:
        settle()
        report = site.back_up(public_folder, below=tuple(str(path) for path in below))
        return site.offered(report), report.files_read

    assert offered(usr) == ({one, two, three, four}, 4)
    files[0].chmod(0o600)
    assert offered(usr) == ({two, three, four}, 1)
    (usr / "b").chmod(0o700)
    assert offered(usr) == ({two, four}, 1)
    assert offered(usr / "c") == ({four}, 1)
    (usr / "b").chmod(0o755)
    assert offered(usr) == ({two, three, four}, 2)
    (usr / "c/four").rename(public_folder / "four")
    assert offered(usr) == ({two, three}, 1)
    (public_folder / "four").rename(usr / "four")
    assert offered(usr) == ({two, three, os.fsencode(usr / "four")}, 1)
    assert offered() == (set(), 3)
    assert offered() == (set(), 0)


def test_the_command_line_offers_what_it_is_told(user: User, public_folder: Path):
    path = write(public_folder / "file")
    settle()

    def files_read(*words: str) -> int:
        summary = user.backup(*words, str(path)).summary
        return int(summary["files_read"])

    assert files_read("--share-below", str(public_folder), "--share-below", "/usr") == 1
    assert files_read("--share-below", f"{public_folder}/") == 0
    # By default only the folders of the operating system are shared.
    assert files_read() == 1
    assert files_read("--share-below", "") == 0
    refused = user.run("backup", "--share-below", "relative", path)
    assert (refused.code, refused.error) == (2, "usage")
    assert "--share-below: 'relative'" in refused.messages
