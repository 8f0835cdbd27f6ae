"""`strongroom baseline`, as a user runs it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from kit.command import Command
from kit.storage_site import StorageSite
from strongroom.measure.verdict import START_SECONDS

QUICK = ("--seconds", "0.05", "--skip", "disk")


class Page(HTMLParser):
    """Which elements are open, and all text."""

    VOID = frozenset(("meta", "line", "rect", "circle", "polyline"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture
def command(tmp_path):
    return Command(tmp_path)


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "<b>tree & more"
    folder.mkdir()
    for number in range(20):
        (folder / str(number)).write_bytes(b"a line of text\n" * 100)
    return folder


def test_it_says_what_bounds_a_backup_and_writes_a_page(command, tree, tmp_path):
    page, text = tmp_path / "report.html", tmp_path / "profile.json"
    shown = command.run(
        "baseline", "--dir", str(tree), *QUICK, "--html", str(page), "-o", str(text)
    ).stdout
    assert "a full backup: " in shown
    assert " is the bound: " in shown
    assert "zstd1" in shown
    assert json.loads(text.read_text())["tree"]["files"] == 20
    found = Page(page.read_text())
    assert found.open == []
    assert f"The tree {tree}" in found.words
    # It is alone: nothing is fetched from anywhere.
    assert not [tag for tag, _ in found.found if tag in ("script", "link", "img", "iframe")]
    assert not [
        one for _, attributes in found.found for one in attributes if one in ("src", "href")
    ]
    assert "svg" in [tag for tag, _ in found.found]


def test_json_has_what_was_measured_and_the_verdict(command, tree):
    shown = command.run("baseline", "--dir", str(tree), *QUICK, "--json").stdout
    found = json.loads(shown)
    assert found["type"] == "baseline"
    assert {"zstd1", "aes-256-gcm", "memory copy"} <= {one["name"] for one in found["speeds"]}
    assert found["disk"] is None
    assert {one["work"] for one in found["verdict"]} == {"full", "incremental"}
    for one in found["verdict"]:
        assert one["seconds"] == pytest.approx(START_SECONDS + max(one["stages"].values()))
        assert one["bound"] in one["stages"]


def test_the_way_to_a_daemon_is_measured_with_our_certificate(command, tree, tmp_path):
    site = StorageSite(tmp_path / "site")
    try:
        site.identity("web1", "agent")
        found = json.loads(
            command.run(
                "baseline", "--dir", str(tree), *QUICK, "--skip", "processor", "--json",
                "--server", f"strongroom://127.0.0.1:{site.port}",
                "--identity", str(site.folder / "web1"),
            ).stdout
        )  # fmt: skip
    finally:
        site.stop()
    assert found["network"]["mode"] == "tls"
    assert "network" in found["verdict"][0]["stages"]


def test_what_was_predicted_stands_beside_what_a_backup_took(command, tree):
    command.make_repository()
    key = command.restore_key
    command.run("baseline", "--dir", str(tree), *QUICK)
    shown = command.run("backup", "-v", str(tree), key_file=key).stdout
    assert re.search(r"^predicted: [0-9,]+ files/s, [0-9,.]+ MB/s, ", shown, re.MULTILINE)
    assert re.search(r"^measured: [0-9,]+ files/s, [0-9,.]+ MB/s, ", shown, re.MULTILINE)
    # It belongs to a closer look.
    assert "predicted" not in command.run("backup", str(tree), key_file=key).stdout
    found = json.loads(command.run("baseline", "--compare", "last", "--json", key_file=key).stdout)
    assert found["type"] == "comparison"
    assert found["measured_seconds"] > 0
    assert found["predicted_seconds"] > 0
    snapshot = found["snapshot"]
    shown = command.run("baseline", "--compare", snapshot[:8], key_file=key).stdout
    assert f"snapshot {snapshot[:8]}" in shown


def test_without_a_baseline_there_is_nothing_to_compare_with(command, tree):
    command.make_repository()
    shown = command.run("backup", "-v", str(tree), key_file=command.restore_key).stdout
    assert "predicted" not in shown
    outcome = command.run("baseline", "--compare", "last", exit_code=2)
    assert (
        "nothing was measured here yet: run `strongroom baseline --dir DIR` first" in outcome.stderr
    )


def test_machines_are_compared_on_one_page(command, tree, tmp_path):
    profiles = []
    for name in ("web1", "<i>db1"):
        path = tmp_path / f"{name}.json"
        command.run("baseline", "--dir", str(tree), *QUICK, "-o", str(path))
        profiles += ["--fleet", str(path)]
    page = tmp_path / "fleet.html"
    shown = command.run("baseline", *profiles, "--html", str(page)).stdout
    assert shown == f"2 machines, on {page}\n"
    found = Page(page.read_text())
    assert found.open == []
    assert {"web1", "<i>db1"} <= set(found.words)
    assert not [tag for tag, _ in found.found if tag in ("script", "link", "img", "iframe", "i")]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--dir", "/none"], 2, "--dir /none is no folder"),
        (["--seconds", "0"], 2, "--seconds is between 0.05 and 60"),
        (["--server", "vault", *QUICK], 2, "a storage daemon is named as strongroom://HOST:PORT"),
        (["--server", "strongroom://vault", *QUICK], 2, "give --identity FOLDER"),
        (["--skip", "everything"], 2, "invalid choice"),
        (["--fleet", "/none"], 2, "--fleet makes a page: say where with --html FILE"),
        (["--fleet", "/none", "--html", "x"], 2, "/none cannot be read"),
        (["--profile", "/none"], 2, "--profile goes with --compare"),
        (["--compare", "last", "--profile", "/none"], 2, "/none cannot be read"),
        (["--compare", "last", "--profile", "/etc/hostname"], 2, "this is no profile that"),
        ([*QUICK, "--skip", "processor", "--html", "/none/x"], 2, "/none/x cannot be written"),
    ],
)
def test_what_cannot_be_measured_is_one_clear_error(command, tree, words, code, said):
    place = [] if "--dir" in words else ["--dir", str(tree)]
    outcome = command.run("baseline", *place, *words, exit_code=code)
    assert said in outcome.stderr
