"""A whole system comes back whole from a rescue medium, and no one's snapshot but ours does so."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kit.command import PASSPHRASE, Command
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import is_made_with_restore_key
from strongroom.engine.stores.local import LocalStore

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="restores set-id bits")


class Rescue:
    def __init__(self, folder: Path) -> None:
        self.site = Command(folder)
        self.site.make_repository()
        self.target = folder / "out"
        self.tree = folder / "tree"
        self.tree.mkdir()
        (self.tree / "su").write_bytes(b"su")
        (self.tree / "su").chmod(0o4755)

    def back_up(self, key_file: Path | None = None, *words: str) -> None:
        self.site.run(
            "backup", str(self.tree), *words, key_file=key_file, STRONGROOM_PASSWORD=PASSPHRASE
        )

    def restore(self, *words: str, **how: Any) -> bool:
        """Whether the program is a root's one again; what is left out was said before the work."""
        ended = self.site.run(
            "restore", f"latest:{self.tree}", "--target", str(self.target), *words,
            STRONGROOM_PASSWORD=PASSPHRASE, **how,
        )  # fmt: skip
        keeps = bool((self.target / "su").stat().st_mode & 0o4000)
        hint = ended.stderr.find("--keep-privileges")
        named = ended.stderr.find("/su: ")
        assert keeps or 0 <= hint < named
        assert keeps == ("--keep-privileges restores them" not in ended.stdout)
        return keeps


@pytest.fixture
def rescue(public_folder: Path) -> Rescue:
    return Rescue(public_folder)


def test_root_gets_all_from_a_snapshot_made_with_the_passphrase(rescue: Rescue) -> None:
    rescue.back_up(None, "--host", "lost")
    assert rescue.restore()
    # The target is not empty any more.
    (rescue.target / "su").chmod(0o755)
    assert not rescue.restore("--overwrite", "always")


@pytest.mark.parametrize("has_lost_and_found", [True, False])
def test_a_fresh_file_system_is_empty(rescue: Rescue, has_lost_and_found: bool) -> None:
    rescue.back_up(None, "--host", "lost")
    rescue.target.mkdir()
    (rescue.target / ("lost+found" if has_lost_and_found else "other")).mkdir()
    assert rescue.restore() == has_lost_and_found


def test_a_put_key_of_another_machine_brings_no_privileges(rescue: Rescue) -> None:
    rescue.site.run(
        "key", "export-put", str(rescue.site.folder / "lost.key"), "--client", "lost",
        STRONGROOM_PASSWORD=PASSPHRASE,
    )  # fmt: skip
    rescue.back_up(rescue.site.folder / "lost.key")
    assert not rescue.restore("--host", "lost")


def test_this_machine_s_own_put_key_does(rescue: Rescue) -> None:
    rescue.back_up(rescue.site.put_key)
    assert rescue.restore()


def test_a_key_file_does_not_stand_for_the_passphrase(rescue: Rescue) -> None:
    rescue.back_up(None)
    assert not rescue.restore(key_file=rescue.site.restore_key)


def test_others_than_root_get_none(rescue: Rescue) -> None:
    rescue.back_up(None)
    os.chmod(rescue.site.folder, 0o777)
    words = rescue.site.words("restore", f"latest:{rescue.tree}", "--target", str(rescue.target))
    for place, folders, names in os.walk(rescue.site.repository):
        for name in (*folders, *names):
            os.chown(os.path.join(place, name), 65534, 65534)
    os.chown(rescue.site.repository, 65534, 65534)
    ended = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words, "--no-cache"],
        env={**rescue.site.environment, "STRONGROOM_PASSWORD": PASSPHRASE},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "--keep-privileges" in ended.stderr
    assert not (rescue.target / "su").stat().st_mode & 0o4000


def test_a_copy_still_says_who_made_it(rescue: Rescue, public_folder: Path) -> None:
    rescue.back_up(None, "--host", "lost")
    rescue.back_up(rescue.site.put_key)
    (public_folder / "other").mkdir()
    other = Command(public_folder / "other")
    other.make_repository()
    words = ("copy", "--from-repo", str(rescue.site.repository), "--from-password-file")
    other.run(*words, str(rescue.site.passphrase_file), STRONGROOM_PASSWORD=PASSPHRASE)
    store = LocalStore(str(other.repository))
    with closing(Repository.open(store, PASSPHRASE.encode())) as repository:
        listed = repository.snapshots()
        whole = {one.host: repository.snapshot(one.id) for one in listed}
        made = {host: is_made_with_restore_key(repository.key, one) for host, one in whole.items()}
    assert made.pop("lost")
    assert set(made.values()) == {False}


def test_what_says_so_is_good_for_the_same_content_only(rescue: Rescue) -> None:
    rescue.back_up(None, "--host", "lost")
    store = LocalStore(str(rescue.site.repository))
    with closing(Repository.open(store, PASSPHRASE.encode())) as repository:
        (before,) = repository.snapshots()
        (rescue.tree / "planted").write_bytes(b"su")
        rescue.back_up(None, "--host", "lost")
        first, second = (repository.snapshot(one.id) for one in repository.snapshots())
        key = repository.key
        assert is_made_with_restore_key(key, first)
        assert is_made_with_restore_key(key, second)
        assert not is_made_with_restore_key(key, replace(second, witness=before.witness))
        assert not is_made_with_restore_key(key, replace(second, owner=bytes(16)))
        assert not is_made_with_restore_key(key, replace(second, witness=b""))
