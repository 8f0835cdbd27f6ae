"""One agent against a storage daemon.

    python -m strongroom_bench.network.attacker PORT IDENTITY [NUMBER]

NUMBER is how many connections it tries to have at once. It holds a certificate of the authority, as
a compromised client does, and takes whatever it gets: connections, uploads that it never ends,
lists, and requests that are refused and so write log lines. It prints "attacking" once it is under
way, and continues until it is killed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress

from strongroom.base.errors import StrongroomError
from strongroom.net.channels.channel import Channel
from strongroom.net.channels.connecting import connect
from strongroom.net.identities.identity import Identity
from strongroom.net.storage.frames import START_SIZE, decode_start, encode_start
from strongroom.net.storage.protocol import (
    PROTOCOL_VERSION,
    FrameType,
    ObjectName,
    StorageHello,
    UploadData,
    encode,
)

CONNECTIONS = 400
UPLOADS = 64
# So much that a writer is started for each.
UPLOAD_BYTES = 1100 << 10
# What a refusal quotes.
_LONG_NAME = "x" * 7000
_SETTLE_SECONDS = 5.0


class _Attack:
    def __init__(self, port: int, identity: Identity) -> None:
        self._port = port
        self._identity = identity
        self._data = os.urandom(UPLOAD_BYTES)
        self.begun = threading.Event()

    def proceed(self, number: int) -> None:
        """Attack with one connection after the other."""
        while True:
            try:
                self._attack(number)
            except (StrongroomError, OSError):
                # Refused or thrown out: the next one.
                time.sleep(0.01)

    def _attack(self, number: int) -> None:
        channel = connect("127.0.0.1", self._port, "vault", self._identity, "tls")
        try:
            hello = encode(StorageHello(PROTOCOL_VERSION))
            channel.send(encode_start(FrameType.HELLO, 0, 1, hello, 0))
            _read_answer(channel)
            self.begun.set()
            for upload in range(UPLOADS):
                header = encode(UploadData(upload, "packs"))
                start = encode_start(FrameType.DATA, 0, 2, header, UPLOAD_BYTES)
                channel.send(start, self._data)
            while True:
                if number % 2:
                    request, header = FrameType.LIST, encode("packs")
                else:
                    request, header = FrameType.DELETE, encode(ObjectName("packs", _LONG_NAME))
                channel.send(encode_start(request, 0, 2, header, 0))
                _read_answer(channel)
        finally:
            channel.close()


def _read_answer(channel: Channel) -> None:
    while True:
        start = decode_start(channel.receive_exactly(START_SIZE))
        size = start.header_size + start.payload_size
        if size:
            channel.receive_exactly(size)
        if start.type != FrameType.PART:
            return


def main() -> None:
    """Attack until killed."""
    port, folder = int(sys.argv[1]), sys.argv[2]
    connections = int(sys.argv[3]) if len(sys.argv) > 3 else CONNECTIONS
    attack = _Attack(port, Identity.load(folder))
    for number in range(connections):
        with suppress(RuntimeError):
            threading.Thread(target=attack.proceed, args=(number,), daemon=True).start()
    attack.begun.wait()
    time.sleep(_SETTLE_SECONDS)
    print("attacking", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
