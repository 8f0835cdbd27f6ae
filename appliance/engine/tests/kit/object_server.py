"""Object stores on loopback: SeaweedFS and Ceph, and rclone, which keeps no promise."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from strongroom_bench.testbed import object_server
from strongroom_bench.testbed.object_server import ENVIRONMENT, KEY, SECRET, ObjectServer

from kit.ports import free_port

__all__ = ["ENVIRONMENT", "KEY", "SECRET", "ObjectServer", "rclone", "seaweedfs", "usual"]


def seaweedfs(folder: Path) -> Iterator[ObjectServer]:
    """For a fixture: SeaweedFS, on ports that are of this test alone."""
    yield from object_server.seaweedfs(folder, free_port)


def usual(folder: Path) -> Iterator[ObjectServer]:
    """For a fixture: SeaweedFS, or Ceph of the Debian in STRONGROOM_TEST_CEPH."""
    root = os.environ.get("STRONGROOM_TEST_CEPH")
    yield from ceph(folder, root) if root else seaweedfs(folder)


def ceph(folder: Path, root: str) -> Iterator[ObjectServer]:
    """For a fixture: Ceph's gateway. Its Debian is made if there is none, which takes minutes."""
    port = free_port()
    script = Path(__file__).parents[1] / "debian" / "ceph_gateway.sh"
    stored = folder / "stored"
    words = [str(script), root, str(stored), *map(str, (port, free_port(), free_port()))]
    server = ObjectServer(words, port, folder, 900.0)
    try:
        object_server.await_puts(server)
        yield server
    finally:
        server.stop()
        shutil.rmtree(stored, ignore_errors=True)


def rclone(folder: Path) -> Iterator[ObjectServer]:
    """For a fixture: rclone, which answers 200 to every condition."""
    (folder / "data").mkdir(parents=True)
    port = free_port()
    words = [str(Path(sys.executable).parent / "rclone"), "serve", "s3", "--config", os.devnull]
    words += ["--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}", str(folder / "data")]
    server = ObjectServer(words, port, folder)
    yield server
    server.stop()
