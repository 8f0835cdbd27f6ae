"""Files in a folder; that they belong to root is so on a host."""

from __future__ import annotations

import os

import pytest
from ansible_collections.strongroom.backup.plugins.modules import managed_files


def entry(path, content="one\n", **further):
    return {"path": str(path), "content": content, **further}


def test_files_are_written_and_the_same_again_changes_nothing(tmp_path, run_module):
    files = [entry(tmp_path / "new/one.conf"), entry(tmp_path / "two", "two\n", mode="0640")]
    told = run_module(managed_files, files=files)
    assert (told["changed"], told["written"]) == (True, [one["path"] for one in files])
    assert (tmp_path / "new/one.conf").read_text() == "one\n"
    assert (tmp_path / "two").stat().st_mode & 0o777 == 0o640
    again = run_module(managed_files, files=files)
    assert (again["changed"], again["written"], again["diff"]) == (False, [], [])


def test_only_what_differs_is_named(tmp_path, run_module):
    run_module(managed_files, files=[entry(tmp_path / "one"), entry(tmp_path / "two")])
    (tmp_path / "two").chmod(0o600)
    told = run_module(managed_files, files=[entry(tmp_path / "one"), entry(tmp_path / "two")])
    assert told["written"] == [str(tmp_path / "two")]
    assert (tmp_path / "two").stat().st_mode & 0o777 == 0o644


def test_files_are_removed(tmp_path, run_module):
    path = tmp_path / "old"
    path.write_text("old\n")
    told = run_module(managed_files, absent=[str(path), str(tmp_path / "never")])
    assert (told["removed"], path.exists()) == ([str(path)], False)
    assert not run_module(managed_files, absent=[str(path)])["changed"]


def test_one_that_is_refused_keeps_all_as_they_were(tmp_path, run_module):
    old = tmp_path / "old"
    old.write_text("old\n")
    files = [
        entry(tmp_path / "one", "right\n", validate="grep --quiet right %s"),
        entry(tmp_path / "two", "wrong\n", validate='sh -c \'cat "$0"; grep right "$0"\' %s'),
    ]
    told = run_module(managed_files, files=files, absent=[str(old)])
    assert told["failed"]
    assert str(tmp_path / "two") in told["msg"]
    assert "wrong" in told["msg"]
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_a_check_changes_nothing_and_needs_no_program_that_is_not_there(tmp_path, run_module):
    old = tmp_path / "old"
    old.write_text("old\n")
    files = [entry(tmp_path / "new/one", validate="no-such-program-anywhere %s")]
    told = run_module(managed_files, check=True, files=files, absent=[str(old)])
    assert (told["changed"], told["written"], told["removed"]) == (True, [files[0]["path"]], [str(old)])
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize(
    ("further", "said"), [({"mode": "rw"}, "octal"), ({"validate": "true"}, "%s")], ids=["mode", "validate"]
)
def test_arguments_that_make_no_sense_are_named(tmp_path, run_module, further, said):
    told = run_module(managed_files, files=[entry(tmp_path / "one", **further)])
    assert told["failed"]
    assert said in told["msg"]


def test_a_folder_that_is_missing_can_be_entered_whatever_the_umask(tmp_path, run_module):
    before = os.umask(0o077)
    try:
        run_module(managed_files, files=[entry(tmp_path / "new/further/one.conf")])
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("new", "new/further")] == [0o755, 0o755]
