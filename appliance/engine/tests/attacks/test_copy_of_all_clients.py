"""A compromised agent stores what cannot be copied; the Copy job copies what all others have."""

import os
import subprocess
import sys

import msgspec
import pytest

from kit.forged_snapshot import NO_BLOCK, file_row, forge
from kit.tiny_backup import PASSPHRASE, back_up, new_repository, read_back
from strongroom.base.errors import SetAsideError
from strongroom.director.own_jobs.descriptions import CopySnapshots, Prune, Sharing
from strongroom.director.repositories.access import RepositoryAccess
from strongroom.engine.stores.local import LocalStore
from strongroom.net.control.messages import RunEnded
from strongroom.service.job_process.messages import decode_from_job, encode_line

FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}


def carried_out(description):
    """The last report of the process of an own job, and its log."""
    words = [sys.executable, "-m", "strongroom.director.own_jobs.job"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # The end of its input would stop it.
        process.stdin.write(encode_line(description))
        process.stdin.flush()
        messages = []
        for line in process.stdout:
            messages.append(decode_from_job(line))
            if isinstance(messages[-1], RunEnded):
                break
        process.stdin.close()
    assert isinstance(messages[-1], RunEnded)
    return messages[-1], [one.text for one in messages if hasattr(one, "text")]


@pytest.fixture
def secret(folder):
    path = folder / "passphrase"
    path.write_bytes(PASSPHRASE)
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def target(folder):
    made = new_repository(LocalStore(str(folder / "other")))
    yield made
    made.close()


def lying_pack(repository, place):
    """A snapshot with a sound listing, and a pack that is not what it says."""
    before = set((place / "packs").rglob("*"))
    made = back_up(repository, {b"lie": os.urandom(9000)})
    (path, *_) = sorted(
        (one for one in set((place / "packs").rglob("*")) - before if one.is_file()),
        key=lambda one: -one.stat().st_size,
    )
    changed = bytearray(path.read_bytes())
    changed[100] ^= 1
    path.chmod(0o600)
    path.write_bytes(changed)
    return made


def test_in_a_folder_one_that_cannot_be_read_is_left_out(folder, target, secret):
    place = str(folder / "repository")
    house = new_repository(LocalStore(place))
    first = lying_pack(house.for_client("web1"), folder / "repository")
    kept = back_up(house.for_client("web2"), FILES)
    last = back_up(house.for_client("web1"), {b"sound": b"again" * 500})
    wanted = (first.id, kept.id, last.id)
    where = [RepositoryAccess(place, secret), RepositoryAccess(str(folder / "other"), secret)]
    copying = CopySnapshots(place=where[0], host="boss", target=where[1], snapshots=wanted)
    ended, log = carried_out(copying)
    assert (ended.status, ended.exit_code) == ("incomplete", SetAsideError.exit_code)
    assert any(first.id in line for line in log)
    copies = dict(ended.summary["copies"])
    assert set(copies) == {kept.id, last.id}
    assert read_back(target, copies[kept.id]) == FILES
    # The next night it is the same, and nothing is copied twice.
    ended, _ = carried_out(copying)
    assert dict(ended.summary["copies"]) == copies
    assert {one.id for one in target.snapshots()} == set(copies.values())
    assert ended.summary["present"] == 2


def test_at_a_daemon_what_was_stored_is_verified_first(
    daemon, appliance, open_as, folder, target, secret
):
    attacker, victim = open_as(daemon.agent("web1")), open_as(daemon.agent("web2"))
    false = forge(attacker, file_row(b"f", NO_BLOCK))
    kept = back_up(victim, FILES)
    place = RepositoryAccess(f"unix:{daemon.socket_path}", secret)
    copying = CopySnapshots(
        place=place,
        host="boss",
        target=RepositoryAccess(str(folder / "other"), secret),
        snapshots=(false.id, kept.id),
    )
    ended, log = carried_out(copying)
    assert ended.status == "done"
    assert [one for one, _ in ended.summary["copies"]] == [kept.id]
    assert any(false.id in line for line in log)
    pruning = Prune(place=place, host="boss", sharing=Sharing(3, ()), memory_bytes=1 << 30)
    ended, log = carried_out(pruning)
    assert (ended.status, ended.error_id) == ("incomplete", "")
    assert any(false.id in line for line in log)


def test_what_an_agent_stored_at_the_target_passes_for_no_copy(
    daemon, appliance, open_as, folder, secret
):
    house = new_repository(LocalStore(str(folder / "house")))
    made = back_up(house.for_client("web1"), FILES)
    attacker = open_as(daemon.agent("web1"))
    lie = back_up(attacker, {name: os.urandom(len(data)) for name, data in FILES.items()})
    false = msgspec.structs.replace(lie, id="", original=f"{house.config.id}:{made.id}")
    with attacker.lease("web1", os.getpid(), "backup") as lease:
        forged = attacker.commit(false, lease)
    copying = CopySnapshots(
        place=RepositoryAccess(str(folder / "house"), secret),
        host="boss",
        target=RepositoryAccess(f"unix:{daemon.socket_path}", secret),
        snapshots=(made.id,),
    )
    for present in (0, 1):
        ended, _ = carried_out(copying)
        assert (ended.status, ended.summary["present"]) == ("done", present)
        ((_, copy),) = ended.summary["copies"]
        assert copy != forged.id
        assert read_back(appliance, copy) == FILES


def test_a_copy_that_was_found_false_is_replaced(folder, target, secret):
    house = new_repository(LocalStore(str(folder / "repository")))
    made = back_up(house.for_client("web1"), FILES)
    copying = CopySnapshots(
        place=RepositoryAccess(str(folder / "repository"), secret),
        host="boss",
        target=RepositoryAccess(str(folder / "other"), secret),
        snapshots=(made.id,),
    )
    ended, _ = carried_out(copying)
    ((_, first),) = ended.summary["copies"]
    ended, _ = carried_out(msgspec.structs.replace(copying, false=(first,)))
    ((_, second),) = ended.summary["copies"]
    assert (ended.status, ended.summary["present"]) == ("done", 0)
    assert second != first
    assert read_back(target, second) == FILES
