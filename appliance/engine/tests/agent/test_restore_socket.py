"""An agent without rights restores through its Restore Socket, with an owner it could not give."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kit.agent_site import CLIENT, AgentSite
from strongroom.net.control.restore_orders import ordered

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the other side runs as root")

AGENT_USER = 65534
MODULE = "strongroom.agent.jobs.privileged_restore"


def serve(listener: socket.socket, words: list[str]) -> None:
    """As systemd does: a process for each connection, which is its input and its output."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            subprocess.run(words, stdin=connection, stdout=connection, cwd="/", check=False)


@pytest.fixture
def site(public_folder: Path) -> Iterator[AgentSite]:
    path = public_folder / "restore.socket"
    made = AgentSite(public_folder, of_client=f'Restore Socket = "{path}"', user=AGENT_USER)
    shutil.copy(made.identity / "authority.pem", public_folder / "authority.pem")
    (public_folder / "working").mkdir()
    for top in ("identity", "working", "repository"):
        for place in (public_folder / top, *(public_folder / top).rglob("*")):
            os.chown(place, AGENT_USER, AGENT_USER)
    words = [
        sys.executable, "-m", MODULE, "--config", str(made.configuration),
        "--run-folder", str(public_folder / "runs-of-root"),
    ]  # fmt: skip
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        os.chown(path, AGENT_USER, AGENT_USER)
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener, words), daemon=True)
        thread.start()
        try:
            made.start_connected()
            yield made
        finally:
            made.close()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(30)


def test_files_get_an_owner_that_the_agent_could_not_give_them(site):
    (site.source / "file").write_text("content")
    os.chown(site.source / "file", 1234, 4321)
    backup = site.backup()
    site.director.send(backup)
    made = site.director.ended(backup.run_id)
    assert made.status == "done"
    target = site.folder / "back"
    start = site.restore(made.snapshot, str(target))

    site.director.send(start)
    ended = site.director.ended(start.run_id)
    assert (ended.status, ended.error_id) == ("failed", "peer-refused")
    assert not target.exists()

    start = site.restore(made.snapshot, str(target))
    site.director.send(ordered(site.director_identity, CLIENT, start, 600))
    ended = site.director.ended(start.run_id)
    assert (ended.status, ended.error) == ("done", "")
    (restored,) = target.rglob("file")
    assert (restored.stat().st_uid, restored.stat().st_gid) == (1234, 4321)
