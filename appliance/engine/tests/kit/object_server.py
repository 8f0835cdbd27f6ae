"""Object stores on loopback: SeaweedFS, which keeps every promise, and rclone, which keeps none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from strongroom_bench.testbed import object_server
from strongroom_bench.testbed.object_server import ENVIRONMENT, KEY, SECRET, ObjectServer

from kit.ports import free_port

__all__ = ["ENVIRONMENT", "KEY", "SECRET", "ObjectServer", "rclone", "seaweedfs"]


def seaweedfs(folder: Path) -> Iterator[ObjectServer]:
    """For a fixture: SeaweedFS, on ports that are of this test alone."""
    yield from object_server.seaweedfs(folder, free_port)


def rclone(folder: Path) -> Iterator[ObjectServer]:
    """For a fixture: rclone, which answers 200 to every condition."""
    (folder / "data").mkdir(parents=True)
    port = free_port()
    words = [str(Path(sys.executable).parent / "rclone"), "serve", "s3", "--config", os.devnull]
    words += ["--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}", str(folder / "data")]
    server = ObjectServer(words, port, folder)
    yield server
    server.stop()
