"""Two machines, as far as the network goes, and the wire between them in a test's hands.

Each machine is a network namespace with a TUN device; what one sends as IP packets a thread here
reads, and hands to the other, or drops, doubles or holds back as it was told. Needs root and
/dev/net/tun. Nothing outside the two namespaces changes, and they go when no one uses them.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self, TypeVar

Result = TypeVar("Result")

NEAR_ADDRESS = "10.77.0.1"
FAR_ADDRESS = "10.77.0.2"
# Of machines that have no IPv4 at all, not even on loopback.
IPV6_ADDRESSES = ("fd77::1", "fd77::2")
_NEW_NETWORK = 0x40000000
_SET_INTERFACE = 0x400454CA
_TUN_WITHOUT_INFORMATION = 0x1001
_GREATEST_PACKET_BYTES = 1 << 16


def cannot_link_packets() -> str:
    """Why there can be no such link here, or ""."""
    if os.geteuid() != 0:
        return "network namespaces take root"
    try:
        with PacketLink():
            return ""
    except (OSError, subprocess.SubprocessError) as error:
        return f"no TUN device or network namespace: {error}"


class Machine:
    """A network namespace: what `run` calls, and processes that it starts, are in it."""

    def __init__(self, address: str, other: str) -> None:
        self._pool = ThreadPoolExecutor(1)
        self.address = address
        self.wire: int = self._pool.submit(self._settle, other).result()

    def run(self, call: Callable[..., Result], *values: object, **named: object) -> Result:
        """Call something there, and wait for what it gives."""
        return self._pool.submit(call, *values, **named).result()

    def close(self) -> None:
        """Leave it."""
        os.close(self.wire)
        self._pool.shutdown()

    def _settle(self, other: str) -> int:
        # Of this thread only, and of what it starts.
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "unshare")
        wire = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            request = struct.pack("16sH22x", b"wire", _TUN_WITHOUT_INFORMATION)
            fcntl.ioctl(wire, _SET_INTERFACE, request)
            steps = ["link set lo up", "link set wire up"]
            if ":" in self.address:
                steps.append("address del 127.0.0.1/8 dev lo")
                steps.append(f"address add {self.address}/64 dev wire nodad")
            else:
                steps.append(f"address add {self.address} peer {other} dev wire")
            for words in steps:
                subprocess.run(["ip", *words.split()], check=True, capture_output=True)
        except BaseException:
            os.close(wire)
            raise
        return wire


@dataclass
class Disorder:
    """What befalls packets: chances from 0 to 1, and how many others overtake one held back."""

    dropped: float = 0.0
    doubled: float = 0.0
    held_back: float = 0.0
    overtaken_by: int = 6


@dataclass
class _Held:
    packet: bytes
    overtaken_by: int


@dataclass
class Counts:
    """What befell packets so far."""

    passed: int = 0
    dropped: int = 0
    doubled: int = 0
    overtaken: int = 0


class PacketLink:
    """`near` and `far` are the two machines. In order and complete until `disorder` is set."""

    def __init__(
        self, seed: int = 0, addresses: tuple[str, str] = (NEAR_ADDRESS, FAR_ADDRESS)
    ) -> None:
        self.disorder = Disorder()
        self.counts = Counts()
        self.is_silent = False
        self._chance = random.Random(seed)
        self._ended, self._end = os.pipe()
        with contextlib.ExitStack() as made:
            made.callback(os.close, self._ended)
            made.callback(os.close, self._end)
            self.near = Machine(*addresses)
            made.callback(self.near.close)
            self.far = Machine(*reversed(addresses))
            made.callback(self.far.close)
            self._made = made.pop_all()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        os.write(self._end, b"x")
        self._thread.join()
        self._made.close()

    def _carry(self) -> None:
        others = {self.near.wire: self.far.wire, self.far.wire: self.near.wire}
        held: dict[int, list[_Held]] = {wire: [] for wire in others}
        # Not `select`, which takes no descriptor above 1023.
        ends = select.poll()
        for number in (self._ended, *others):
            ends.register(number, select.POLLIN)
        while True:
            # What nothing comes to overtake continues all the same.
            waits = any(held.values())
            ready = [number for number, _ in ends.poll(10 if waits else None)]
            if self._ended in ready:
                return
            for wire, other in others.items():
                if wire in ready:
                    self._take(wire, other, held[other])
                elif not ready:
                    self._release(other, held[other])

    def _take(self, wire: int, other: int, held: list[_Held]) -> None:
        disorder = self.disorder
        with contextlib.suppress(BlockingIOError):
            while packet := os.read(wire, _GREATEST_PACKET_BYTES):
                if self.is_silent or self._chance.random() < disorder.dropped:
                    self.counts.dropped += 1
                    continue
                if self._chance.random() < disorder.held_back:
                    held.append(_Held(packet, disorder.overtaken_by))
                    continue
                self._hand(other, packet)
                if self._chance.random() < disorder.doubled:
                    self.counts.doubled += 1
                    self._hand(other, packet)
                for one in held:
                    one.overtaken_by -= 1
                due = [one for one in held if one.overtaken_by <= 0]
                held[:] = [one for one in held if one.overtaken_by > 0]
                self.counts.overtaken += len(due)
                for one in due:
                    self._hand(other, one.packet)

    def _release(self, other: int, held: list[_Held]) -> None:
        for one in held:
            self._hand(other, one.packet)
        held.clear()

    def _hand(self, wire: int, packet: bytes) -> None:
        self.counts.passed += 1
        # A device whose queue is full loses packets, as the real ones do.
        with contextlib.suppress(BlockingIOError):
            os.write(wire, packet)
