"""A place that only other programs understand is never taken for the name of a folder."""

import os

import pytest

ELSEWHERE = (
    "rclone:remote:x",
    "user@host:/x",
    "rclone:x",
    "b2:bucket:x",
    "rest:http://host/",
    "file:///srv/x",
    "~/x",
)


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.parametrize("place", ELSEWHERE)
@pytest.mark.parametrize("words", [("-r", "PLACE", "init"), ("init", "--repo", "PLACE")])
def test_a_place_of_another_program_is_refused(strongroom, words, place):
    found = strongroom(*(place if word == "PLACE" else word for word in words))
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert place in found.stderr
    assert os.listdir(".") == []


@pytest.mark.parametrize("place", ELSEWHERE[:-1])
def test_the_error_says_what_is_supported(strongroom, place):
    found = strongroom("snapshots", STRONGROOM_REPOSITORY=place)
    assert found.returncode == 2
    assert "a folder" in found.stderr
    assert "strongroom://HOST:PORT" in found.stderr
    assert "unix:SOCKET" in found.stderr


def test_copy_refuses_it_on_both_sides(strongroom):
    assert strongroom("init", "-r", "good", STRONGROOM_PASSWORD="p").returncode == 0
    for words in (("-r", "good", "--from-repo", "b2:b"), ("-r", "b2:b", "--from-repo", "good")):
        found = strongroom("copy", *words, STRONGROOM_PASSWORD="p")
        assert (found.returncode, "b2:b" in found.stderr) == (2, True)
    assert os.listdir(".") == ["good"]


def test_a_folder_with_a_colon_in_its_name_can_be_named(strongroom):
    for place in ("./a:b", os.path.abspath("c:d")):
        assert strongroom("-r", place, "init", STRONGROOM_PASSWORD="p").returncode == 0
    assert sorted(os.listdir(".")) == ["a:b", "c:d"]


@pytest.mark.parametrize("words", [("-r", "", "init"), ("init", "--repo=")])
def test_an_empty_place_is_not_replaced_by_the_usual_one(strongroom, words):
    place = os.path.abspath("usual")
    found = strongroom(*words, STRONGROOM_REPOSITORY=place, STRONGROOM_PASSWORD="p")
    assert (found.returncode, os.listdir(".")) == (2, [])
    assert "--repo is empty" in found.stderr


def test_an_empty_path_is_not_the_present_folder(strongroom):
    good = os.path.abspath("good")
    strongroom("-r", good, "init", STRONGROOM_PASSWORD="p")
    for words in (("",), ("/etc/hosts", "")):
        found = strongroom("-r", good, "backup", *words, STRONGROOM_PASSWORD="p")
        assert (found.returncode, "a path to back up is empty" in found.stderr) == (2, True)
    assert os.listdir("good/snapshots") == []
