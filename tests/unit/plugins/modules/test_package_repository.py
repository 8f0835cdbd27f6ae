"""With repositories as `make packages` makes them, and apt as it is on a host."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.strongroom.backup.plugins.modules import package_repository

PROJECT = Path(__file__).resolve().parents[4]
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("gpg", "dpkg-deb", "apt-get"))),
    reason="gpg, dpkg-deb or apt-get is not installed",
)


def build(folder, version):
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as tree:
        control = Path(tree) / "DEBIAN/control"
        control.parent.mkdir()
        control.write_text(
            f"Package: strongroom\nVersion: {version}\nArchitecture: amd64\n"
            "Maintainer: Some One <one@example.org>\nDescription: short\n"
        )
        Path(tree).chmod(0o755)
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, folder], check=True, capture_output=True)


def make(folder, *suites, key="key", keep=3):
    words = [sys.executable, str(PROJECT / "appliance/packages/apt_repository.py"), folder / "apt"]
    options = ["--time", "1700000000", "--keep", str(keep), "--key-folder", str(folder / key)]
    subprocess.run([*words, *suites, *options], check=True, capture_output=True)
    return folder / "apt"


@pytest.fixture
def made():
    """A repository; its name is short, as gpg puts sockets beside it."""
    folder = Path(tempfile.mkdtemp(prefix="repo"))
    folder.chmod(0o755)
    build(folder / "1", "1.0")
    make(folder, f"trixie={folder / '1'}")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def taken(tmp_path):
    return tmp_path / "packages"


def arguments(made, taken, **others):
    key = (made / "apt/strongroom.asc").read_text()
    return {"source": str(made / "apt"), "path": str(taken), "key": key, **others}


def served(taken):
    """Every file that is served, by its path."""
    top = taken / "apt"
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def test_it_is_copied_once_and_the_same_again_changes_nothing(made, taken, run_module):
    told = run_module(package_repository, **arguments(made, taken))
    assert (told["changed"], told["suites"], told["packages"]) == (True, ["trixie"], ["strongroom_1.0_amd64.deb"])
    assert served(taken) == served(made)
    assert not run_module(package_repository, **arguments(made, taken))["changed"]
    assert {path.stat().st_mode & 0o777 for path in (taken / "apt").resolve().rglob("*") if path.is_dir()} == {0o755}


def test_a_check_changes_nothing(made, taken, run_module):
    assert run_module(package_repository, check=True, **arguments(made, taken))["changed"]
    assert not taken.exists()


def test_a_new_version_comes_with_those_that_the_source_keeps(made, taken, run_module):
    run_module(package_repository, **arguments(made, taken))
    first = (taken / "apt").resolve()
    inode = next(first.rglob("*.deb")).stat().st_ino
    build(made / "2", "2.0")
    make(made, f"trixie={made / '2'}")
    told = run_module(package_repository, **arguments(made, taken))
    assert told["packages"] == ["strongroom_1.0_amd64.deb", "strongroom_2.0_amd64.deb"]
    # What was there is not copied again, and takes no place twice.
    assert next((taken / "apt").resolve().rglob("strongroom_1*.deb")).stat().st_ino == inode
    assert not first.exists()
    build(made / "3", "3.0")
    make(made, f"trixie={made / '3'}", keep=1)
    told = run_module(package_repository, **arguments(made, taken))
    assert told["packages"] == ["strongroom_3.0_amd64.deb"]
    assert len(list(taken.iterdir())) == 2


def test_what_was_copied_by_hand_is_replaced(made, taken, run_module):
    shutil.copytree(made / "apt", taken / "apt")
    (taken / "apt/dists/trixie/InRelease").write_text("old")
    assert run_module(package_repository, **arguments(made, taken))["changed"]
    assert served(taken) == served(made)
    assert len(list(taken.iterdir())) == 2


def test_it_comes_from_a_web_server_too(made, taken, run_module):
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=made)
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        source = f"http://127.0.0.1:{server.server_port}/apt/"
        told = run_module(package_repository, **arguments(made, taken, source=source))
        assert told["changed"]
        assert served(taken) == served(made)
        assert not run_module(package_repository, **arguments(made, taken, source=source))["changed"]
        told = run_module(package_repository, **arguments(made, taken, source=source + "none"))
        assert "has none of the suites" in told["msg"]
        server.shutdown()
    assert run_module(package_repository, **arguments(made, taken, source=source))["failed"]


def damage_package(made):
    path = next(made.rglob("pool/**/*.deb"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def lengthen_package(made):
    path = next(made.rglob("pool/**/*.deb"))
    path.write_bytes(path.read_bytes() + b"x")


def lose_package(made):
    next(made.rglob("pool/**/*.deb")).unlink()


def lead_out(made):
    for name in ("InRelease", "main/binary-amd64/Packages"):
        path = made / "apt/dists/trixie" / name
        path.write_text(path.read_text().replace("main/binary-amd64/Packages", "../../../Packages"))


def sign_by_another(made):
    make(made, f"trixie={made / '1'}", key="other")


def change_index(made):
    path = made / "apt/dists/trixie/InRelease"
    path.write_text(path.read_text().replace("Origin: Strongroom", "Origin: Strongroon"))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (damage_package, "does not match the index of it"),
        (lengthen_package, "does not match the index of it"),
        (lose_package, "is not there"),
        (lead_out, "is not a path of a repository"),
        (sign_by_another, "not signed by the key"),
        (change_index, "not signed by the key"),
    ],
)
def test_what_is_not_right_takes_the_place_of_nothing(made, taken, run_module, fault, said):
    run_module(package_repository, **arguments(made, taken))
    before = served(taken)
    given = arguments(made, taken)
    # Nothing of what was copied before may hide the fault.
    build(made / "2", "2.0")
    make(made, f"trixie={made / '2'}", keep=1)
    fault(made)
    told = run_module(package_repository, **given)
    assert told["failed"]
    assert told["msg"].startswith("nothing was changed: ")
    assert said in told["msg"]
    assert served(taken) == before
    assert len(list(taken.iterdir())) == 2


def test_an_index_cannot_have_a_file_of_the_host_served(made, taken, run_module):
    secret = made / "secret"
    secret.write_text("secret")
    index = made / "apt/dists/trixie/main/binary-amd64/Packages"
    for name in (str(secret), "../secret", "pool/../../secret", "./secret"):
        index.write_text(f"Package: x\nFilename: {name}\nSize: 6\nSHA256: {'0' * 64}\n")
        with pytest.raises(package_repository.RepositoryError, match="is not a path of a repository"):
            package_repository.packages_of(index.read_text())
    assert not os.path.lexists(taken)
