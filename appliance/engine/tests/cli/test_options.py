"""What options give, and what they say of a text that they do not take."""

from __future__ import annotations

import pytest

from strongroom.base.errors import UsageError
from strongroom.cli import options
from strongroom.cli.main import command_parser
from strongroom.cli.snapshot_choice import GROUPED_BY, snapshot_path
from strongroom.engine.prune.forget import GROUP_PARTS


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("4096", 4096), ("100k", 100 << 10), ("10M", 10 << 20), ("2GiB", 2 << 30), ("1 tb", 1 << 40)],
)
def test_a_size_counts_in_1024(text, size_bytes):
    assert options.size(text) == size_bytes


@pytest.mark.parametrize(
    "words",
    [
        ["prune", "--memory", "much"],
        ["prune", "--repack-below", "120%"],
        ["prune", "--grace", "1m"],
        ["prune", "--threads", "-1"],
        ["restore", "latest", "--in-place", "--workers", "257"],
        ["check", "--processes", "257"],
        ["prune", "--threads", "257"],
        ["find", "--type", "file,hat"],
        ["find", "--newer-than", "soon"],
        ["forget", "--keep-daily", "many"],
        ["forget", "--group-by", "colour"],
        ["snapshots", "--latest", "0"],
        ["backup", "/etc", "--limit-upload", "fast"],
        ["backup", "/etc", "--exclude-larger-than", "8192P"],
        ["find", "--larger-than", "9" * 5000],
        ["find", "--newer-than", "@" + "9" * 5000],
        ["forget", "--tag", ","],
    ],
)
def test_a_value_that_is_not_taken_is_an_error_that_names_the_option(words):
    with pytest.raises(UsageError, match=f"argument {words[-2]}: .*{words[-1][-3:]}"):
        command_parser(words[0]).parse_args(words[1:])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["restore", "latest", "--delete", "--target", ""], "--target"),
        (["restore", "", "--in-place"], "SNAPSHOT"),
        (["forget", "--keep-last", "1", "--tag", ""], "--tag"),
        (["forget", "--keep-last=1", "--host="], "--host"),
        (["forget", "--keep-last", "1", "--path", ""], "--path"),
        (["forget", "--keep-tag", ""], "--keep-tag"),
        (["backup", "/etc", "--key-file", ""], "--key-file"),
        (["backup", "/etc", "--repo="], "--repo"),
        (["prune", "--password-file", ""], "--password-file"),
        (["cache", "--clear", "--cache-dir", ""], "--cache-dir"),
        (["verify", "--against", ""], "--against"),
        (["mount", ""], "FOLDER"),
        (["key", "export-put", ""], "FILE"),
        (["copy", "--from-repo", ""], "--from-repo"),
        (["check", "--read-data="], "--read-data"),
    ],
)
def test_an_empty_value_is_refused_as_a_variable_that_a_script_did_not_set(words, name):
    with pytest.raises(UsageError, match=f"{name}.* is empty; give it a value"):
        command_parser(words[0]).parse_args(words[1:])


@pytest.mark.parametrize(
    "words",
    [
        ["backup", "/etc", "--tag", "good,b\udcff"],
        ["backup", "/etc", "--host", "b\udcff"],
        ["backup", "/etc", "--job", "b\udcff"],
        ["backup", "/etc", "--fileset", "b\udcff"],
        ["tag", "latest", "--add", "b\udcff"],
        ["rewrite", "--new-host", "b\udcff"],
        ["init", "--label", "b\udcff"],
        ["key", "add", "--label", "b\udcff"],
        ["key", "export-put", "-", "--client", "b\udcff"],
    ],
)
def test_a_name_that_cannot_be_stored_is_refused_before_anything_is(words):
    with pytest.raises(UsageError, match=rf"argument {words[-2]}: .*b\\xff' is not UTF-8"):
        command_parser(words[0]).parse_args(words[1:])


def test_an_empty_value_is_taken_where_it_means_something():
    assert command_parser("tag").parse_args(["--set", ""]).set == []
    assert command_parser("forget").parse_args(["--group-by="]).group_by == ()
    backup = command_parser("backup").parse_args
    assert backup(["/etc", "--share-below", ""]).share_below == [""]
    # A script that adds no tag is still to make its backup.
    assert (backup(["/etc", "--tag", ""]).tag, backup(["/etc", "--host="]).host) == ([], "")
    assert backup(["--source", "command", "--", "printf", ""]).path == [b"printf", b""]


def test_an_option_gives_what_its_type_says():
    found = command_parser("forget").parse_args(
        ["--keep-tag", "a,b", "--keep-tag", "c", "--tag", "d,e", "--tag", "f", "--grace", "2h"]
    )
    assert found.keep_tag == [("a", "b"), ("c",)]
    assert found.tag == ["d", "e", "f"]
    assert found.group_by == ("host", "paths")
    assert (found.grace, found.repack_below, found.memory) == (7200, 0.8, 1 << 30)


def test_snapshots_are_grouped_by_what_forget_knows():
    assert set(GROUPED_BY) == set(GROUP_PARTS)


@pytest.mark.parametrize(
    ("text", "path", "inside", "enters"),
    [
        ("latest", None, b"", False),
        ("latest:", "", b"", False),
        ("latest:/", "/", b"", False),
        ("latest:/home/ann", "/home/ann", b"home/ann", False),
        ("latest:/home/ann/", "/home/ann/", b"home/ann", True),
    ],
)
def test_a_place_in_a_snapshot(text, path, inside, enters):
    found = snapshot_path(text)
    assert (found.snapshot, found.path, found.inside, found.enters) == (
        "latest",
        path,
        inside,
        enters,
    )
