"""SeaweedFS on loopback: an object store that keeps every promise.

python -m strongroom_bench.testbed.object_server FOLDER prints a place in one and ends with its
standard input.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from strongroom.base.errors import StoreError
from strongroom.cli.measure.testbed.daemons import free_ports
from strongroom.engine.stores.place import BucketLocation, place_of
from strongroom.engine.stores.s3_client import S3Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY: Final = "test"
SECRET: Final = "a-secret-of-tests"
BUCKET: Final = "strongroom-tests"
ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}
_START_SECONDS: Final = 120.0
_IDENTITIES: Final = {
    "identities": [
        {
            "name": "tests",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}


class ObjectServer:
    """A server that is started, and its places."""

    def __init__(
        self, words: list[str], port: int, folder: Path, most_seconds: float = _START_SECONDS
    ) -> None:
        self.port = port
        self.endpoint = f"http://127.0.0.1:{port}"
        self._log = (folder / "server.log").open("wb")
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        deadline = time.monotonic() + most_seconds
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                assert self._process.poll() is None, (folder / "server.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                return

    @property
    def is_running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

    def text(self, prefix: str = "repository", bucket: str = BUCKET) -> str:
        """The place of a prefix, as it is named."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}"

    def place(self, prefix: str = "repository", bucket: str = BUCKET) -> BucketLocation:
        """The same, understood."""
        found = place_of(self.text(prefix, bucket))
        assert isinstance(found, BucketLocation)
        return found

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._log.close()


def seaweedfs(
    folder: Path, free_port: Callable[[], int] = lambda: free_ports(1)[0]
) -> Iterator[ObjectServer]:
    """For a fixture: SeaweedFS, ready to store, for who has ENVIRONMENT. It takes some seconds."""
    (folder / "data").mkdir(parents=True)
    (folder / "s3.json").write_text(json.dumps(_IDENTITIES))
    ports = {name: free_port() for name in ("s3", "master", "volume", "filer")}
    words = [str(Path(sys.executable).parent / "weed"), "server", "-s3", "-ip=127.0.0.1"]
    words += ["-ip.bind=127.0.0.1", f"-dir={folder / 'data'}", f"-s3.config={folder / 's3.json'}"]
    # A bucket takes several volumes; too few of them are answered by 500 later.
    words += ["-volume.max=200", "-master.volumeSizeLimitMB=256", "-s3.port.iceberg=0"]
    words += ["-s3.port.lance=0", "-master.telemetry=false"]
    for name, port in ports.items():
        words += [f"-{name}.port={port}", f"-{name}.port.grpc={free_port()}"]
    server = ObjectServer(words, ports["s3"], folder)
    try:
        await_puts(server)
        yield server
    finally:
        server.stop()


def await_puts(server: ObjectServer) -> None:
    """Wait until it stores: its port is open before there are volumes."""
    deadline = time.monotonic() + _START_SECONDS
    client = S3Client(server.place())
    while True:
        try:
            client.make_bucket()
            client.put("ready", b"ready")
            client.close()
            return
        except StoreError:
            assert server.is_running
            assert time.monotonic() < deadline


def _main() -> None:
    for server in seaweedfs(Path(sys.argv[1])):
        sys.stdout.write(f"{server.text()}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    _main()
