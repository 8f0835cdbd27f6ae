"""The program that gives packages to clients: files of its folder, and nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys

import pytest

from kit.project import PACKAGES

SECRET = b"a secret beside the folder"
INDEX = b"Package: strongroom\n"
PATIENCE_SECONDS = 60


@pytest.fixture
def folder(tmp_path):
    """As on an appliance: `apt` is a link to what was put there last."""
    real = tmp_path / "packages" / ".1" / "dists" / "trixie"
    real.mkdir(parents=True)
    (real / "InRelease").write_bytes(INDEX)
    (real / "a+b~1:2.deb").write_bytes(os.urandom(3_000_000))
    (tmp_path / "packages" / "apt").symlink_to(".1")
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "packages-of-others").mkdir()
    (tmp_path / "packages-of-others" / "secret").write_bytes(SECRET)
    return tmp_path / "packages"


@contextlib.contextmanager
def connected(folder):
    """A connection, as systemd gives it to the program."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_SECONDS)
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", PACKAGES / "serve_packages.py", folder],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        theirs.close()
        try:
            yield ours
        finally:
            ours.close()
            told = process.communicate(timeout=PATIENCE_SECONDS)[1]
            assert (process.returncode, told) == (0, b"")


def answers(folder, *requests):
    """What it says to requests that come all at once: status, headers and content of each."""
    with connected(folder) as connection:
        connection.sendall(b"".join(requests))
        connection.shutdown(socket.SHUT_WR)
        said = b""
        while data := connection.recv(1 << 20):
            said += data
    found = []
    while said:
        head, _, said = said.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        status = int(lines[0].split()[1])
        length = int(headers.get("Content-Length", 0)) if status == 200 else 0
        if len(found) < len(requests) and requests[len(found)].startswith(b"HEAD"):
            length = 0
        found.append((status, headers, said[:length]))
        said = said[length:]
    return found


def get(path, *headers, method="GET"):
    lines = [f"{method} {path} HTTP/1.1", "Host: vault", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def test_apt_gets_several_files_over_one_connection(folder):
    names = ["apt/dists/trixie/InRelease", "apt/none", "apt/dists/trixie/a+b~1:2.deb"]
    first, none, second = answers(folder, *(get(f"/{name}") for name in names))
    assert (first[0], first[2]) == (200, INDEX)
    assert (none[0], none[2]) == (404, b"")
    assert second[2] == (folder / names[2]).read_bytes()
    (escaped,) = answers(folder, get("/apt/dists/trixie/a%2bb%7E1%3a2.deb"))
    assert escaped[2] == second[2]


def test_a_file_that_apt_has_is_not_sent_again_and_a_replaced_one_is(folder):
    path = "/apt/dists/trixie/InRelease"
    ((_, headers, _),) = answers(folder, get(path, method="HEAD"))
    assert headers["Content-Length"] == str(len(INDEX))
    known = f"If-Modified-Since: {headers['Last-Modified']}"
    ((status, _, content),) = answers(folder, get(path, known))
    assert (status, content) == (304, b"")
    # Also one that was written earlier than what was there.
    os.utime(folder / path[1:], (1, 1))
    ((status, _, content),) = answers(folder, get(path, known))
    assert (status, content) == (200, INDEX)


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/apt/../../secret",
        "/apt/%2e%2e/%2e%2e/secret",
        "/..%2fsecret",
        "/apt/..%252f..%252f/secret",
        "/apt/.%2e/.%2e/secret",
        "//../secret",
        "/apt//../../secret",
        "/%2fetc/passwd",
        "//etc/passwd",
        "/etc/passwd",
        "etc/passwd",
        "../secret",
        "http://vault/../secret",
        "/../packages-of-others/secret",
        "/apt/..\\..\\secret",
        "/apt/%00/../../secret",
        "/apt/dists/trixie/InRelease%00",
        "/apt/dists/trixie/InRelease?x",
        "/.1/dists/trixie/InRelease",
        "/apt/dists/trixie",
        "/apt/dists/trixie/",
        "/",
        "/apt/dists/trixie/InRelease/..",
        "/apt/dists/trixie/%ff",
        "/" + "a" * 5000,
        "/" + "a/" * 9000,
    ],
)
def test_no_path_leads_out_of_the_folder(folder, path):
    ((status, headers, content),) = answers(folder, get(path))
    assert (status, content) == (404, b"")
    assert headers["Content-Length"] == "0"


@pytest.mark.parametrize("target", ["../secret", "{out}/secret", "..", "/", "loop", "gone"])
def test_links_out_of_the_folder_are_not_followed(folder, target):
    (folder / "loop").symlink_to(target.format(out=folder.parent))
    for path in ("/loop", "/loop/secret", "/loop/etc/passwd", "/loop/packages-of-others/secret"):
        ((status, _, content),) = answers(folder, get(path))
        assert (status, content) == (404, b"")


def test_what_is_no_file_is_not_waited_for(folder):
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        for path in ("/pipe", "/socket"):
            assert answers(folder, get(path))[0][0] == 404


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "MOVE"])
def test_nothing_can_be_written(folder, method):
    before = sorted((path, path.lstat().st_mtime_ns) for path in folder.rglob("*"))
    for path in ("/apt/new", "/apt/dists/trixie/InRelease"):
        request = get(path, "Content-Length: 3", "Destination: /apt/other", method=method)
        found = answers(folder, request + b"new", get("/apt/dists/trixie/InRelease"))
        # What follows is not taken for a request.
        assert [status for status, _, _ in found] == [501]
    assert sorted((path, path.lstat().st_mtime_ns) for path in folder.rglob("*")) == before


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"A" * 70_000 + b"\r\n",
        b"",
    ],
)
def test_what_is_no_request_ends_the_connection(folder, request_line):
    with connected(folder) as connection:
        connection.sendall(request_line)
        connection.shutdown(socket.SHUT_WR)
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(1 << 16):
                said += data
    assert not re.search(rb"200|secret|Traceback", said)


def test_a_request_with_content_is_refused(folder):
    hidden = get("/apt/dists/trixie/InRelease")
    for header in (f"Content-Length: {len(hidden)}", "Transfer-Encoding: chunked"):
        found = answers(folder, get("/apt/dists/trixie/InRelease", header) + hidden)
        assert [status for status, _, _ in found] == [400]


@pytest.mark.parametrize("words", [[], ["/", "/"], ["/not/there"]])
def test_faults_are_one_line(words):
    done = subprocess.run(
        [sys.executable, PACKAGES / "serve_packages.py", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_what_serves_packages_has_no_way_out():
    unit = (PACKAGES / "units/strongroom-packages@.service").read_text()
    said = {line for line in unit.splitlines() if "=" in line and not line.startswith("#")}
    assert said >= {
        "CapabilityBoundingSet=",
        "DynamicUser=yes",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "RestrictAddressFamilies=none",
        "StandardInput=socket",
        "TemporaryFileSystem=/var:ro /etc:ro /opt:ro /srv:ro /run:ro",
    }
    shown = re.findall(r"(?m)^(?:Read|Bind)\w*Paths=-?(\S+)$", unit)
    assert sorted(shown) == ["/etc/ld.so.cache", "/var/lib/strongroom/packages"]
    assert not re.search(r"StateDirectory|AmbientCapabilities=\S|SupplementaryGroups", unit)
