"""`strongroom baseline`, as a user runs it."""

from __future__ import annotations

import json
import os
import re
import tempfile
from html.parser import HTMLParser

import pytest

from kit.command import Command
from kit.iperf3_server import iperf3_server
from kit.storage_site import StorageSite
from strongroom.cli.measure.verdict import START_SECONDS

QUICK = ("--seconds", "0.05", "--skip", "disk")


class Page(HTMLParser):
    """Which elements are open, and all text."""

    VOID = frozenset(("meta", "line", "rect", "polyline"))

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
    assert " is the bottleneck: " in shown
    assert "zstd1" in shown
    assert re.search(r"^AES: (accelerated|not).*; SHA: (accelerated|not)", shown, re.MULTILINE)
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


@pytest.fixture
def site(tmp_path):
    made = StorageSite(tmp_path / "site")
    made.identity("web1", "agent")
    yield made
    made.stop()


@pytest.mark.parametrize("spelling", ["strongroom://127.0.0.1:{}", "127.0.0.1:{}"])
def test_the_way_to_a_daemon_is_measured_with_our_certificate(command, tree, site, spelling):
    found = json.loads(
        command.run(
            "baseline", "--dir", str(tree), *QUICK, "--skip", "processor", "--json",
            "--server", spelling.format(site.port), "--identity", str(site.folder / "web1"),
        ).stdout
    )  # fmt: skip
    assert found["network"]["mode"] == "tls"
    assert "network" in found["verdict"][0]["stages"]


def test_a_host_alone_is_asked_at_the_usual_port(command, tree, site):
    words = ("--server", "127.0.0.9", "--identity", str(site.folder / "web1"))
    outcome = command.run("baseline", "--dir", str(tree), *QUICK, *words, exit_code=32)
    assert "127.0.0.9 port 9103" in outcome.stderr


def test_iperf3_stands_beside_the_daemon(command, tree, site, tmp_path):
    page, text = tmp_path / "report.html", tmp_path / "profile.json"
    with iperf3_server() as port:
        far_end = f"127.0.0.1:{port}"
        shown = command.run(
            "baseline", "--dir", str(tree), *QUICK, "--skip", "processor", "--iperf3", far_end,
            "--server", f"127.0.0.1:{site.port}", "--identity", str(site.folder / "web1"),
            "--html", str(page), "-o", str(text),
        ).stdout  # fmt: skip
    assert re.search(r"^NETWORK +CONNECTIONS +MB/s +IPERF3 MB/s", shown, re.MULTILINE)
    assert re.search(r"^send +1 +[0-9,]+ +[0-9,]+ ", shown, re.MULTILINE)
    assert re.search(r"^receive +16 +[0-9,]+ +[0-9,]+ ", shown, re.MULTILINE)
    assert re.search(r"; [0-9,]+ of [0-9,]+ segments from this machine were sent again", shown)
    assert f"{far_end}: iperf3, without TLS; " in shown
    found = json.loads(text.read_text())["iperf3"]
    assert found["server"] == far_end
    assert {one["direction"] for one in found["transfers"]} == {"send", "receive"}
    words = Page(page.read_text()).words
    assert {"send, iperf3", "receive, iperf3", "MB/s, storage daemon", "MB/s, iperf3"} <= set(words)


def test_without_a_daemon_iperf3_stands_alone(command, tree):
    with iperf3_server() as port:
        shown = command.run(
            "baseline", "--dir", str(tree), *QUICK, "--skip", "processor", "--skip", "tree",
            "--iperf3", f"127.0.0.1:{port}",
        ).stdout  # fmt: skip
    assert re.search(r"^NETWORK +CONNECTIONS +IPERF3 MB/s", shown, re.MULTILINE)


def test_the_page_of_a_fleet_has_what_iperf3_measured(command, tree, tmp_path):
    one, page = tmp_path / "web1.json", tmp_path / "fleet.html"
    with iperf3_server() as port:
        words = ("--skip", "processor", "--iperf3", f"127.0.0.1:{port}", "-o", str(one))
        command.run("baseline", "--dir", str(tree), *QUICK, *words)
    command.run("baseline", "--fleet", str(one), "--html", str(page))
    assert "Sending by iperf3, MB a second at best" in Page(page.read_text()).words


def test_what_is_not_installed_is_told_before_anything_is_measured(command, tree, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    # Measured first, this would take half an hour.
    words = ("baseline", "--dir", str(tree), "--seconds", "60")
    outcome = command.run(*words, exit_code=2, PATH=str(programs))
    assert "fio is not installed, and measures the disk" in outcome.stderr
    outcome = command.run(
        *words, "--skip", "disk", "--iperf3", "vault", exit_code=2, PATH=str(programs)
    )
    assert "iperf3 is not installed, and --iperf3 runs it: `apt-get install" in outcome.stderr


def test_a_disk_without_room_is_told_before_anything_is_measured(command):
    # Nothing is free below /proc.
    outcome = command.run("baseline", "--dir", "/proc/self/net", "--seconds", "60", exit_code=2)
    assert "MiB free, and measuring its disk needs" in outcome.stderr


def test_attributes_and_what_the_kernel_does_not_count_are_in_words(command, tmp_path):
    page = tmp_path / "report.html"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for number in range(5):
            with open(f"{folder}/{number}", "w") as file:
                file.write("text")
        os.setxattr(f"{folder}/3", "trusted.one" if os.geteuid() == 0 else "user.one", b"value")
        words = (*QUICK, "--skip", "processor", "--html", str(page))
        shown = command.run("baseline", "--dir", folder, *words).stdout
    attributes = (
        r"listing attributes [0-9.]+ µs an entry; none of 6 entries has ACLs; "
        r"1 of 6 have other attributes, reading one [0-9.]+ µs"
    )
    uncounted = "the kernel counts reads by block device, and tmpfs has none of its own"
    assert re.search(rf"^{attributes}$", shown, re.MULTILINE)
    assert f"\nreads are not counted: {uncounted}\n" in shown
    assert re.search(r"^warm +[0-9,]+ +not counted ", shown, re.MULTILINE)
    text = " ".join(Page(page.read_text()).words)
    assert re.search(attributes, text)
    assert f"Reads are not counted: {uncounted}." in text


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
    assert "no measurement yet: run `strongroom baseline --dir DIR` first" in outcome.stderr


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
        (["--dir", "/none"], 2, "argument --dir: /none is not a folder"),
        (["--seconds", "0"], 2, "argument --seconds: '0': write a number from 0.05 to 60"),
        *(
            (["--server", server, *QUICK], 2, f"--server {server}: a storage daemon is named as ")
            for server in ("http://vault", "vault:port", "/mnt/backup", "ann@vault", ":9103")
        ),
        (["--server", "vault", *QUICK], 2, "vault requires a certificate; give --identity FOLDER"),
        (["--iperf3", "http://vault", *QUICK], 2, "a server of iperf3 is named as HOST or HOST"),
        (["--server", "strongroom://vault", *QUICK], 2, "give --identity FOLDER"),
        (["--skip", "everything"], 2, "invalid choice"),
        (["--fleet", "/none"], 2, "--fleet writes a page: add --html FILE"),
        (["--fleet", "/none", "--html", "x"], 2, "/none cannot be read"),
        (["--profile", "/none"], 2, "--profile goes with --compare"),
        (["--compare", "last", "--profile", "/none"], 2, "/none cannot be read"),
        (["--compare", "last", "--profile", "/etc/hostname"], 2, "not a profile of"),
        # Measured first, this would take half an hour.
        (["--seconds", "60", "--html", "/none/x"], 2, "/none/x cannot be written"),
        (["--seconds", "60", "-o", "/none/x"], 2, "/none/x cannot be written"),
    ],
)
def test_what_cannot_be_measured_is_one_clear_error(command, tree, words, code, said):
    place = [] if "--dir" in words else ["--dir", str(tree)]
    outcome = command.run("baseline", *place, *words, exit_code=code)
    assert said in outcome.stderr
