"""`strongroom stats` counts what is stored once, and what one snapshot alone keeps."""

import os


def test_a_repository_adds_up_to_its_files(site):
    (stats,) = site.command.objects("stats")
    objects = site.command.stored_objects()
    assert stats["total_bytes"] == sum(size for _, size in objects.values())
    packs = [size for name, (_, size) in objects.items() if name.startswith("packs/")]
    assert stats["data_packs"] + stats["listing_packs"] == len(packs)
    assert stats["data_pack_bytes"] + stats["listing_pack_bytes"] == sum(packs)
    assert stats["snapshots"] == 3
    restored = sum(found["size_bytes"] for found in site.command.objects("snapshots"))
    assert stats["restore_bytes"] == restored
    assert stats["deduplication_ratio"] == round(restored / stats["raw_bytes"], 3)
    assert stats["compression_ratio"] > 10  # zeros, and a short text again and again


def test_a_put_key_may_see_the_figures_of_the_whole(site):
    answer = site.command.run("stats", key_file=site.command.put_key)
    assert "deduplication" in answer.stdout


def test_what_a_snapshot_alone_holds_is_what_forgetting_it_gives_back(command, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    shared, mine, theirs = os.urandom(700_000), os.urandom(600_000), os.urandom(50_000)
    (tree / "shared").write_bytes(shared)
    (tree / "again").write_bytes(shared)
    (tree / "mine").write_bytes(mine)
    (tree / "small").write_bytes(b"small")
    first = command.back_up(str(tree))
    (tree / "mine").write_bytes(theirs)
    second = command.back_up(str(tree))
    stats = {found["id"]: found for found in command.objects("stats", "--each")}
    assert stats[first]["restore_bytes"] == 2 * len(shared) + len(mine) + 5
    assert stats[first]["content"]["raw_bytes"] == len(shared) + len(mine) + 5
    assert stats[first]["alone"]["raw_bytes"] == len(mine)
    assert stats[second]["alone"] == {
        **stats[second]["alone"], "chunks": 1, "raw_bytes": len(theirs)
    }  # fmt: skip
    (only,) = command.objects("stats", second[:12])
    assert only == stats[second]


def test_an_empty_repository_has_figures_too(command):
    (stats,) = command.objects("stats")
    assert stats["raw_bytes"] == stats["chunks"] == stats["snapshots"] == 0
    assert command.objects("stats", "--each") == []
