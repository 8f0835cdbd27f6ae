"""IP packets that arrive in another order, twice, or not at all: backups are as good as ever."""

import random

import pytest

from kit.packet_link import NEAR_ADDRESS, Disorder, PacketLink, cannot_link_packets
from kit.storage_site import StorageSite
from kit.tree_compare import compare_trees

pytestmark = pytest.mark.skipif(bool(cannot_link_packets()), reason=cannot_link_packets())

CONTENT_BYTES = 6_000_000


@pytest.mark.parametrize("mode", ["tls", "off"])
def test_a_backup_over_a_link_that_reorders_doubles_and_drops_packets(folder, mode):
    tree = folder / "tree"
    tree.mkdir()
    chance = random.Random(6)
    for number in range(12):
        (tree / f"{number}").write_bytes(chance.randbytes(CONTENT_BYTES // 12))
    with PacketLink(seed=9) as link:
        site = link.near.run(StorageSite, folder, "TLS Require = no", host=NEAR_ADDRESS)
        try:
            site.identity("web1", "agent")
            site.identity("ann", "operator")
            link.disorder = Disorder(dropped=0.01, doubled=0.03, held_back=0.05)
            made = link.far.run(site.back_up, "web1", str(tree), tls=mode)
            assert made["new_bytes"] >= CONTENT_BYTES
            counts = link.counts
            assert min(counts.overtaken, counts.doubled, counts.dropped) > 10, counts
            # Nothing is sent again by the next, over the same link.
            again = link.far.run(site.back_up, "web1", str(tree), "--level", "full", tls=mode)
            assert again["new_bytes"] == 0
            site.local("check", "--read-data")
            target = folder / "restored"
            link.far.run(site.restore_as_operator, "ann", made["snapshot"], target, tls=mode)
            found = target / str(tree).lstrip("/")
            assert compare_trees(bytes(tree), bytes(found)) == []
        finally:
            assert site.stop() == 0, site.log()
