"""A storage daemon that says what no file system says: odd names, impossible sizes and times."""

import os

import msgspec
import pytest

from kit.memory_store import MemoryStore
from kit.prepared_commands import run_command
from kit.tiny_backup import PASSPHRASE, back_up, new_repository
from strongroom.base.errors import DamageError, ProtocolError
from strongroom.engine.repository.configuration import decode_config
from strongroom.engine.stores.store import KINDS, ObjectInfo
from strongroom.net.storage.protocol import decode_info, decode_infos, decode_names

ODD_NAMES = (
    "",
    ".",
    "..",
    "../../etc/shadow",
    "zz" * 32,
    "AB" * 32,
    "ab" * 31,
    "ab" * 32,
    "x" * 200,
    "\u202etxt",
    "a\nb",
    "\x1b[2J",
)
ODD_NUMBERS = ((0, 0), (1 << 40, -(1 << 62)), ((1 << 63) - 1, (1 << 63) - 1))
FILES = {b"one": b"first" * 100}


class OddStore(MemoryStore):
    """Lists objects that no one stored."""

    is_odd = False

    def list(self, kind):
        yield from super().list(kind)
        if type(self).is_odd and kind != "config":
            for number, name in enumerate(ODD_NAMES):
                yield ObjectInfo(name, *ODD_NUMBERS[number % 3])

    def reopen(self):
        return OddStore(self._objects)


@pytest.fixture
def odd(make_daemon, monkeypatch):
    shared = OddStore()
    daemon = make_daemon(open_store=lambda _: shared.reopen())
    appliance = new_repository(daemon.local())
    kept = back_up(appliance, FILES, "web2")
    appliance.close()
    monkeypatch.setattr(OddStore, "is_odd", True)
    return daemon, kept


def test_no_command_fails_in_a_way_that_nobody_foresaw(odd, folder):
    daemon, kept = odd
    place = f"unix:{daemon.socket_path}"
    environment = {name: text for name, text in os.environ.items() if "STRONGROOM" not in name} | {
        "HOME": str(folder / "home"),
        "LC_ALL": "C.UTF-8",
        "STRONGROOM_REPOSITORY": place,
        "STRONGROOM_PASSWORD": PASSPHRASE.decode(),
    }
    (folder / "tree").mkdir()
    (folder / "tree" / "file").write_text("text")
    for words in (
        ("snapshots",),
        ("stats",),
        ("stats", "--each"),
        ("ls", kept.id),
        ("dump", kept.id, "/data/one"),
        ("find", "one"),
        ("check", "--read-data", "all"),
        ("key", "list"),
        ("forget", "--keep-last", "1", "-n"),
        ("backup", str(folder / "tree"), "--host", "web1"),
        ("vouch",),
        ("share",),
        ("prune", "-n"),
        ("repair", "-n"),
        ("prune",),
        ("restore", kept.id, "--target", str(folder / "out")),
    ):
        ended = run_command(words, environment)
        said = (words, ended.stderr.decode())
        assert ended.returncode not in (1, 70, 71), said
        assert ended.returncode >= 0, said
        assert b"\x1b[2J" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "row",
    [
        ("ab", -1, 0),
        ("ab", 1 << 63, 0),
        ("ab", 0, (1 << 64) - 1),
        ("a" * 300, 0, 0),
        (b"ab", 0, 0),
        ("ab", 0),
        ("ab", 1.5, 0),
    ],
)
def test_what_no_object_can_be_is_a_fault_of_the_peer(row):
    with pytest.raises(ProtocolError):
        decode_infos(msgspec.msgpack.encode([row]))
    with pytest.raises(ProtocolError):
        decode_info(msgspec.msgpack.encode(row))


def test_only_names_of_objects_are_believed_to_be_doubted():
    names = ["ab" * 32, *ODD_NAMES]
    for kind in KINDS:
        told = decode_names(kind, msgspec.msgpack.encode(names))
        assert "ab" * 32 in told
        assert kind in ("config", "leases") or set(told) == {"ab" * 32}
    for deep in (b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"\xc1", b""):
        with pytest.raises(ProtocolError):
            decode_names("packs", deep)


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"strongroom":' * 9000, b"\xff", b"{}", b'{"strongroom":1e999}']
)
def test_a_configuration_that_is_none_is_damage(data):
    with pytest.raises(DamageError):
        decode_config(data)
