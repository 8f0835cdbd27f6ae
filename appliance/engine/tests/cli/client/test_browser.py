"""The restore browser, driven key by key against a real director."""

import asyncio
import contextlib

import pytest
from textual.widgets import Checkbox, DataTable, Input, Static

from kit.simulated_agent import SimulatedAgent
from strongroom.base.errors import NotPermittedError
from strongroom.cli.client.browser.files import FilesScreen
from strongroom.cli.client.browser.marks import MarkedPaths
from strongroom.cli.client.browser.position import SnapshotPosition
from strongroom.cli.client.browser.program import Browser
from strongroom.cli.client.browser.restoring import RestoreDialog, RunScreen
from strongroom.cli.client.browser.snapshots import SnapshotsScreen, new_screens
from strongroom.cli.client.client import DirectorClient
from strongroom.cli.client.place import DirectorAccess
from strongroom.net.control.messages import StartRestore


@contextlib.asynccontextmanager
async def browsing(director, who="admin", client="", begin=None):
    identity = director.identity(who).folder.decode()
    with DirectorClient(DirectorAccess(url=director.url, identity=identity)) as api:
        place = SnapshotPosition(api, client)
        app = Browser(place, new_screens(place.snapshot(begin) if begin else None))
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await settle(pilot)
            yield pilot


async def settle(pilot):
    """Wait until what was asked for is on the screen."""
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def press(pilot, *keys):
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def type_text(pilot, text):
    await pilot.press(*("full_stop" if letter == "." else letter for letter in text))
    await settle(pilot)


def rows(pilot):
    table = pilot.app.screen.query_one(DataTable)
    return [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]


def names(pilot):
    return [row[1] for row in rows(pilot)]


def line(pilot, name):
    return str(pilot.app.screen.query_one(name, Static).content)


def told(pilot):
    return " ".join(str(toast.render()) for toast in pilot.app.screen.query("Toast"))


async def go_to(pilot, path):
    """From a directory above: type the beginning of each name and press Enter."""
    for part in path.strip("/").split("/"):
        # A letter takes the pilot longer than a person; temporary folders have long names.
        await type_text(pilot, part[:3])
        await press(pilot, "enter")


def test_snapshots_are_listed_and_narrowed_down(director):
    async def scene():
        async with browsing(director) as pilot:
            assert [row[1] for row in rows(pilot)] == ["db1", "web1", "web1"]
            await press(pilot, "slash", "w", "e", "b")
            assert [row[1] for row in rows(pilot)] == ["web1", "web1"]
            assert line(pilot, "#place").startswith("2 snapshots")
            await press(pilot, "escape")
            assert len(rows(pilot)) == 3
            await press(pilot, "f5")
            assert len(rows(pilot)) == 3

    asyncio.run(scene())


def test_copies_are_shown_as_such_and_where_they_are(own_director, copied):
    async def scene():
        async with browsing(own_director, client="web1") as pilot:
            assert [row[-2] for row in rows(pilot)] == ["vault", "offsite (copy)", "vault"]
            await press(pilot, "slash", "c", "o", "p", "y")
            assert [row[-1] for row in rows(pilot)] == [copied[1].id[:8]]

    asyncio.run(scene())


def test_one_walks_through_directories_as_in_a_file_manager(director):
    tree = str(director.tree)

    async def scene():
        async with browsing(director, client="web1") as pilot:
            await press(pilot, "down", "enter")
            screen = pilot.app.screen
            assert isinstance(screen, FilesScreen)
            assert screen.snapshot.id == director.snapshots[0].id
            await go_to(pilot, tree)
            assert names(pilot) == ["etc/", "home/"]
            await press(pilot, "down", "enter")
            assert screen.folder == f"{tree}/home".encode()
            assert names(pilot) == ["ann/", "people -> ann", "\\xfe-not-utf8"]
            await press(pilot, "enter")
            assert names(pilot) == ["Pictures/", "letter.odt"]
            await press(pilot, "l", "e")
            assert screen.current.name == b"letter.odt"
            assert "typed: le" in line(pilot, "#hint")
            await press(pilot, "backspace", "backspace")
            assert screen.folder == f"{tree}/home/ann".encode()
            await press(pilot, "backspace")
            assert screen.folder == f"{tree}/home".encode()
            assert screen.current.name == b"ann"
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, SnapshotsScreen)

    asyncio.run(scene())


def test_modes_begin_with_the_type_as_in_ls(director):
    tree = str(director.tree)

    async def scene():
        async with browsing(director, begin=director.snapshots[0].id) as pilot:
            await go_to(pilot, f"{tree}/home/ann")
            shown = [(row[1], row[-1][0]) for row in rows(pilot)]
            assert shown == [("Pictures/", "d"), ("letter.odt", "-")]

    asyncio.run(scene())


def test_snapshots_before_and_after_are_shown_at_the_same_place(director):
    tree = str(director.tree)

    async def scene():
        async with browsing(director, client="web1") as pilot:
            await press(pilot, "enter")
            await go_to(pilot, f"{tree}/home/ann")
            assert names(pilot) == ["Pictures/"]
            await press(pilot, "f8")
            assert names(pilot) == ["Pictures/", "letter.odt"]
            await press(pilot, "f8")
            assert "no further" in told(pilot)
            await press(pilot, "f9")
            assert names(pilot) == ["Pictures/"]

    asyncio.run(scene())


def test_a_name_is_found_where_it_still_was(director):
    async def scene():
        async with browsing(director, client="web1") as pilot:
            await press(pilot, "enter", "f7")
            pilot.app.screen.query_one(Input).value = "LETTER"
            await press(pilot, "enter")
            screen = pilot.app.screen
            assert screen.snapshot.id == director.snapshots[0].id
            assert screen.current.name == b"letter.odt"
            assert "not in" in told(pilot)
            await press(pilot, "f7")
            screen.query_one(Input).value = "nothing-like-it"
            await press(pilot, "enter")
            assert "no file" in told(pilot)

    asyncio.run(scene())


def test_a_search_says_what_it_could_not_look_into(own_director):
    ghost = own_director.snapshots[0]

    async def scene():
        async with browsing(own_director, client="web1") as pilot:
            await press(pilot, "enter", "f7")
            (own_director.folder / "repository" / "snapshots" / ghost.id).unlink()
            pilot.app.screen.query_one(Input).value = "cat.jpg"
            await press(pilot, "enter")
            assert pilot.app.screen.current.name == b"cat.jpg"
            assert f"{ghost.id[:8]} of web1" in told(pilot)

    asyncio.run(scene())


def test_what_is_marked_is_restored_by_the_agent(director):
    tree = str(director.tree)

    async def scene(agent):
        async with browsing(director, begin=director.snapshots[0].id[:10]) as pilot:
            await go_to(pilot, tree)
            await press(pilot, "space")
            await go_to(pilot, "home")
            await press(pilot, "down", "insert")
            assert [row[0] for row in rows(pilot)] == [" ", "*", " "]
            assert "2 marked" in line(pilot, "#hint")
            await press(pilot, "backspace")
            assert [row[0] for row in rows(pilot)] == ["*", " "]
            await press(pilot, "up", "enter")
            assert {row[0] for row in rows(pilot)} == {"+"}
            await press(pilot, "space")
            assert "above" in told(pilot)
            await press(pilot, "f5")
            assert isinstance(pilot.app.screen, RestoreDialog)
            pilot.app.screen.query_one("#client", Input).value = "web2"
            pilot.app.screen.query_one("#target", Input).value = "relative"
            await pilot.press("f5")
            assert "absolute path" in told(pilot)
            pilot.app.screen.query_one("#target", Input).value = "/srv/back"
            pilot.app.screen.query_one("#dry-run", Checkbox).value = True
            await pilot.press("f5")
            order = await asyncio.to_thread(agent.expect, StartRestore)
            assert order.target == "/srv/back"
            assert order.options.dry_run is True
            agent.started(order.run_id)
            agent.log(order.run_id, "restoring now")
            agent.progress(order.run_id, files=1, bytes=10, total_bytes=20)
            agent.ended(order.run_id)
            await settle(pilot)
            assert isinstance(pilot.app.screen, RunScreen)
            assert "is done" in line(pilot, "#state")
            await press(pilot, "escape")
            assert "marked" not in line(pilot, "#hint")
            assert len(pilot.app.farewell) == 1
            assert "is done" in pilot.app.farewell[0]

    with SimulatedAgent(director, "web2") as agent:
        asyncio.run(scene(agent))


def test_a_restore_that_is_not_permitted_is_told_and_the_browser_continues(director):
    async def scene():
        async with browsing(director, "ann", begin=director.snapshots[0].id) as pilot:
            await press(pilot, "f5")
            pilot.app.screen.query_one("#target", Input).value = "/etc"
            await press(pilot, "f5")
            assert "Where ACL" in line(pilot, "#state")
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, FilesScreen)

    asyncio.run(scene())


def test_who_may_see_nothing_is_told_why(director):
    async def scene():
        async with browsing(director, "eve") as pilot:
            assert isinstance(pilot.app.failure, NotPermittedError)

    asyncio.run(scene())


def test_marks_of_what_is_in_a_marked_directory_are_taken_up_in_it():
    marks = MarkedPaths()
    assert marks.toggle(b"/a/b", 5)
    assert marks.toggle(b"/a/c/d", 7)
    assert marks.toggle(b"/ab", 1)
    assert (len(marks), marks.size_bytes) == (3, 13)
    assert marks.toggle(b"/a")
    assert list(marks) == [b"/a", b"/ab"]
    assert (marks.state(b"/a"), marks.state(b"/a/c/d"), marks.state(b"/abc")) == (
        "marked", "within", "",
    )  # fmt: skip
    assert not marks.toggle(b"/a/x")
    assert marks.toggle(b"/a")
    assert marks.state(b"/a/c/d") == ""


@pytest.mark.parametrize("path", [b"/", b"/a", b"/a/b"])
def test_the_root_can_be_marked_as_anything_else(path):
    marks = MarkedPaths()
    marks.toggle(path)
    assert list(marks) == [path]
    assert marks.state(path) == "marked"
