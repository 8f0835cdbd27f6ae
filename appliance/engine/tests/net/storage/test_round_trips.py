"""How often a job waits for a distant daemon does not grow: every wait is the latency of the link.

Counted are waits after something was sent, on all connections together, so also those that another
wait hides. What setting a connection up takes comes before: TCP and the handshake.
"""

import os
from contextlib import closing, nullcontext

import pytest

from kit.counted_channel import RoundTrips
from strongroom.base.progress import NullProgress
from strongroom.engine.backup.backup import back_up
from strongroom.engine.backup.options import BackupOptions, Tuning
from strongroom.engine.repository.keys.files import import_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.sources.registry import open_source
from strongroom.engine.stores.capabilities import connect_ahead
from strongroom.net.channels.connecting import connect
from strongroom.net.storage.protocol import PROTOCOL_VERSION, StorageHello
from strongroom.net.storage.store import RemoteStore
from strongroom.sources.source import SourceRequest


@pytest.fixture
def run(site):
    web1 = site.identity("web1", "agent")
    tree = site.folder / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(os.urandom(100_000))
    # So that no file looks as if it had been changed while the first backup began.
    os.utime(tree / "file", (10**9, 10**9))

    def run(**options):
        trips = RoundTrips()
        folder = os.fsencode(site.folder / "cache")
        store = RemoteStore(
            f"strongroom://127.0.0.1:{site.port}",
            trips.counted(lambda: connect("127.0.0.1", site.port, "vault", web1, is_early=True)),
            StorageHello(PROTOCOL_VERSION),
            folder,
            is_far=True,
        )
        connect_ahead(store, 1)
        source = open_source("files", SourceRequest((os.fsencode(tree),), b"", {}))
        wanted = BackupOptions("web1", tuning=Tuning(shards=1), cache_folder=folder, **options)
        with closing(Repository.open(store, import_key(site.put_key.read_text()))) as repository:
            report = back_up(repository, source, wanted, lambda: nullcontext(NullProgress()))
        return report, sum(trips.connections)

    return run


def test_a_first_backup_waits_four_times(run):
    """For the configuration, the lease with all listings, the packs, and the end in one go."""
    report, round_trips = run()
    assert report.snapshot is not None
    assert report.new_chunks == 1
    assert round_trips <= 4


def test_an_unchanged_backup_waits_three_times(run, site):
    """It reads index and snapshots from what this machine stored itself."""
    for _ in range(5):
        before = folders_above(site.folder / "tree")
        first, _ = run()
        again, round_trips = run(level="incremental")
        is_unchanged = folders_above(site.folder / "tree") == before
        if is_unchanged:
            break
        # Somebody made something beside a folder above the tree: that is a change to be stored.
    assert again.parent_id == first.snapshot.id
    assert again.new_chunks == 0
    assert round_trips <= (3 if is_unchanged else 4)


def folders_above(path):
    return [above.stat().st_ctime_ns for above in path.parents]
