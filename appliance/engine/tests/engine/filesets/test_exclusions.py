"""What a backup leaves out, tried on real directories."""

from __future__ import annotations

import os

import pytest

from strongroom.base.errors import UsageError
from strongroom.engine.filesets.exclusions import (
    CACHE_TAG_SIGNATURE,
    SelectionOptions,
    compile_selection,
)
from strongroom.engine.scan.directory import read_names, stat_rows


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kept(folder, options: SelectionOptions, path: bytes = b"home") -> list[bytes]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    names = read_names(fd)
    os.close(fd)
    selection = compile_selection(options)
    assert selection is not None
    keep = selection.filter(path, names, stat_rows(names)[0])
    if keep is None:
        return names
    assert not all(keep)
    return [name for name, one in zip(names, keep, strict=True) if one]


def test_without_exclusions_there_is_no_selection():
    assert compile_selection(SelectionOptions()) is None
    assert compile_selection(SelectionOptions(one_file_system=True)) is None


def test_patterns_leave_names_out(here):
    for name in ("a.o", "a.c", "B.TMP", "keep.o"):
        (here / name).touch()
    (here / "build").mkdir()
    (here / "list").write_bytes(b"*.c\n")
    options = SelectionOptions(
        exclude=(b"*.o", b"!keep.o", b"/home/build/"),
        exclude_ignoring_case=(b"*.tmp",),
        exclude_files=(bytes(here / "list"),),
    )
    assert kept(here, options) == [b"keep.o", b"list"]
    assert kept(here, options, b"elsewhere") == [b"build", b"keep.o", b"list"]


def test_a_pattern_file_may_ignore_case(here):
    (here / "A.BAK").touch()
    (here / "list").write_bytes(b"*.bak")
    options = SelectionOptions(exclude_files_ignoring_case=(bytes(here / "list"),))
    assert kept(here, options) == [b"list"]


def test_a_cache_directory_keeps_its_tag_only(here):
    (here / "CACHEDIR.TAG").write_bytes(CACHE_TAG_SIGNATURE + b"\n# more")
    (here / "object").touch()
    assert kept(here, SelectionOptions(exclude_caches=True)) == [b"CACHEDIR.TAG"]


@pytest.mark.parametrize("content", [b"", b"Signature: something else", CACHE_TAG_SIGNATURE[:-1]])
def test_a_tag_without_the_signature_is_no_tag(here, content):
    (here / "CACHEDIR.TAG").write_bytes(content)
    (here / "object").touch()
    assert kept(here, SelectionOptions(exclude_caches=True)) == [b"CACHEDIR.TAG", b"object"]


def test_a_tag_that_is_a_fifo_or_a_link_does_not_count_and_does_not_block(here):
    os.mkfifo("CACHEDIR.TAG")
    (here / "object").touch()
    assert len(kept(here, SelectionOptions(exclude_caches=True))) == 2
    os.unlink("CACHEDIR.TAG")
    (here / "real").write_bytes(CACHE_TAG_SIGNATURE)
    os.symlink("real", "CACHEDIR.TAG")
    assert len(kept(here, SelectionOptions(exclude_caches=True))) == 3


def test_a_marker_leaves_out_everything_beside_it(here):
    (here / ".nobackup").touch()
    (here / "file").touch()
    assert kept(here, SelectionOptions(exclude_if_present=(b".nobackup",))) == [b".nobackup"]
    assert len(kept(here, SelectionOptions(exclude_if_present=(b".other",)))) == 2


def test_a_marker_with_a_header_must_begin_with_it(here):
    (here / "TAG").write_bytes(b"skip: me")
    (here / "file").touch()
    assert kept(here, SelectionOptions(exclude_if_present=(b"TAG:skip: me",))) == [b"TAG"]
    assert len(kept(here, SelectionOptions(exclude_if_present=(b"TAG:keep",)))) == 2


def test_a_marker_counts_for_a_slice_that_does_not_hold_it(here):
    (here / ".nobackup").touch()
    (here / "file").touch()
    selection = compile_selection(SelectionOptions(exclude_if_present=(b".nobackup",)))
    assert selection is not None
    assert selection.filter(b"home", [b"file"], stat_rows([b"file"])[0]) == [False]


def test_size_limits_are_for_regular_files_only(here):
    (here / "small").write_bytes(b"x" * 10)
    (here / "right").write_bytes(b"x" * 100)
    (here / "big").write_bytes(b"x" * 1000)
    (here / "folder").mkdir()
    os.symlink("x", "link")
    options = SelectionOptions(exclude_smaller_than_bytes=100, exclude_larger_than_bytes=100)
    assert kept(here, options) == [b"folder", b"link", b"right"]
    assert b"big" in kept(here, SelectionOptions(exclude_smaller_than_bytes=11))
    assert b"big" not in kept(here, SelectionOptions(exclude_larger_than_bytes=999))
    assert b"small" in kept(here, SelectionOptions(exclude_larger_than_bytes=999))


def test_patterns_and_sizes_add_up(here):
    (here / "a.o").write_bytes(b"")
    (here / "b.c").write_bytes(b"x" * 50)
    (here / "c.c").write_bytes(b"")
    options = SelectionOptions(exclude=(b"*.o",), exclude_larger_than_bytes=20)
    assert kept(here, options) == [b"c.c"]


@pytest.mark.parametrize(
    "options",
    [
        SelectionOptions(exclude=(b"[",)),
        SelectionOptions(exclude_if_present=(b"a/b",)),
        SelectionOptions(exclude_if_present=(b":header",)),
        SelectionOptions(exclude_if_present=(b"..",)),
        SelectionOptions(exclude_files=(b"/nonexistent/list",)),
        SelectionOptions(exclude_smaller_than_bytes=10, exclude_larger_than_bytes=9),
        SelectionOptions(exclude_larger_than_bytes=-1),
    ],
)
def test_options_that_make_no_sense_are_errors(options):
    with pytest.raises(UsageError):
        compile_selection(options)
