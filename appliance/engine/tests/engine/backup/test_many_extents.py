"""A sparse file of thousands of extents goes through everything that is done with a snapshot."""

import os

from kit.command import Command
from kit.tree_compare import compare_trees

EXTENTS = 3000
PAGE = 4096


def test_a_file_of_thousands_of_extents_comes_back(folder):
    command = Command(folder)
    command.make_repository()
    tree = folder / "tree"
    tree.mkdir()
    with open(tree / "sparse", "wb") as file:
        for number in range(EXTENTS):
            os.pwrite(file.fileno(), b"%08d" % number, 2 * PAGE * number)
    first = command.back_up(str(tree))
    with open(tree / "sparse", "r+b") as file:
        os.pwrite(file.fileno(), b"other", 4 * PAGE)
    second = command.back_up(str(tree))
    (tree / "further").write_text("")
    third = command.back_up(str(tree))
    changed = command.objects("diff", first, second)
    assert str(tree / "sparse") in [one.get("path") for one in changed]
    changed = command.objects("diff", second, third)
    assert str(tree / "sparse") not in [one.get("path") for one in changed]
    command("restore", third, "--target", str(folder / "restored"))
    restored = folder / "restored" / str(tree).strip("/")
    assert compare_trees(os.fsencode(tree), os.fsencode(restored)) == []
    assert (restored / "sparse").stat().st_blocks * 512 <= 2 * PAGE * EXTENTS
    command("restore", third, "--target", str(folder / "restored"))
    dumped = command.run("dump", third, str(tree / "sparse"), key_file=command.restore_key)
    assert dumped.stdout.encode() == (tree / "sparse").read_bytes()
    command("check", "--read-data")
    command("stats", "--each")
