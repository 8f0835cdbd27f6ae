"""A program on a real pseudo terminal, and its screen as text.

with ConsoleOnTerminal([...], term="vt100") as console:
    console.wait_for("Network")
    console.press("1")
    print(console.text)
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable
from typing import Final, Self

import pyte

KEYS: Final = {"enter": "\r", "escape": "\x1b", "tab": "\t", "clear": "\x15", "down": "\x1b[B",
               "up": "\x1bOA"}  # fmt: skip
PATIENCE_SECONDS: Final = 120


class ConsoleOnTerminal:
    """See the module."""

    def __init__(
        self, words: list[str], term: str = "linux", columns: int = 80, rows: int = 25
    ) -> None:
        self._words, self._term = words, term
        self._size = (rows, columns)
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._process = self._descriptor = -1
        self._readable = select.poll()
        self.exit_code: int | None = None

    def __enter__(self) -> Self:
        environment = {**os.environ, "TERM": self._term, "LC_ALL": "C.UTF-8"}
        for name in ("LINES", "COLUMNS"):  # they would be believed before the terminal
            environment.pop(name, None)
        self._process, self._descriptor = pty.fork()
        if self._process == 0:
            # Before the program looks, so not by the other side.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *self._size, 0, 0))
            os.execvpe(self._words[0], self._words, environment)
        self._readable.register(self._descriptor, select.POLLIN)
        return self

    def __exit__(self, *failure: object) -> None:
        if self.exit_code is None:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        os.close(self._descriptor)

    @property
    def lines(self) -> list[str]:
        """The screen as it is now."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        """The same as one text."""
        return "\n".join(self.lines)

    def press(self, *keys: str) -> None:
        """Type texts, or keys by their names."""
        for key in keys:
            os.write(self._descriptor, KEYS.get(key, key).encode())
            if key == "escape":
                time.sleep(0.2)  # else it begins a longer key

    def send(self, data: bytes) -> None:
        """Type bytes, as a terminal of another character set does."""
        os.write(self._descriptor, data)

    def scanned(self) -> list[str]:
        """What a scanner reads from QR codes on the screen."""
        import numpy as np
        import zxingcpp

        # Eight pixels wide and sixteen high, as the font of a screen.
        rows = []
        for row in range(self._screen.lines):
            upper, lower = [], []
            for column in range(self._screen.columns):
                one = self._screen.buffer[row][column]
                light = {" ": (0, 0), "\u2588": (1, 1), "\u2580": (1, 0), "\u2584": (0, 1)}.get(
                    one.data, (0, 1)
                )
                upper += [255 * (light[0] ^ one.reverse)] * 8
                lower += [255 * (light[1] ^ one.reverse)] * 8
            rows += [upper] * 8 + [lower] * 8
        picture = np.array(rows, dtype=np.uint8)
        return [one.text for one in zxingcpp.read_barcodes(picture)]

    def wait_until(self, is_there: Callable[[], bool]) -> None:
        """Wait until the screen is so."""
        ends = time.monotonic() + PATIENCE_SECONDS
        while not is_there():
            if time.monotonic() > ends or not self._read():
                raise AssertionError(f"what was waited for never came:\n{self.text}")

    def wait_for(self, *texts: str) -> str:
        """Wait until all of these are on the screen; the screen."""
        self.wait_until(lambda: all(text in self.text for text in texts))
        return self.text

    def wait_for_end(self) -> int:
        """Wait until the program has ended; its exit code."""
        ends = time.monotonic() + PATIENCE_SECONDS
        while self._read():
            if time.monotonic() > ends:
                raise AssertionError(f"it does not end:\n{self.text}")
        _, status = os.waitpid(self._process, 0)
        self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code

    def _read(self) -> bool:
        if not self._readable.poll(1000):
            return True
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # the program has ended
            return False
        self._stream.feed(data)
        return bool(data)
