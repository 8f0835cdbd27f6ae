"""Names that a shell completes while somebody types: snapshots, clients, jobs and runs.

It never asks for a passphrase: the ids of snapshots are the names of their objects. It takes two
seconds at most, whatever hangs, and says nothing when something is wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import signal
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from strongroom import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strongroom.cli.settings import Settings

KINDS: Final = ("snapshots", "clients", "jobs", "runs")
SECONDS: Final = 2.0
_MOST: Final = 500
_SHORT_ID: Final = 8
_MOST_BYTES: Final = 1 << 20
# Shells give other signs a meaning, and what a client is called is not for us to say.
_SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")


def names_of(kind: str, words: Sequence[str], begin: str, settings: Settings) -> list[str]:
    """The names of a kind that begin with `begin`; `words`: what was typed after `strongroom`."""
    find = _FINDERS[kind]
    found = _within(SECONDS, lambda: find(words, settings))
    fitting = (name for name in dict.fromkeys(found) if name.startswith(begin))
    return [name for name in fitting if _SAFE.fullmatch(name)][:_MOST]


def _snapshots(words: Sequence[str], settings: Settings) -> list[str]:
    place = _given(words, "--repo") or _given(words, "-r") or settings.repository
    of_director = _given(words, "--client") or _given(words, "--director")
    if place and not of_director:
        return ["latest", *_stored_snapshots(place, words, settings)]
    found = _asked(words, settings, "/snapshots", client=_given(words, "--client"), limit=_MOST)
    return ["latest", *(one["id"][:_SHORT_ID] for one in found)]


def _stored_snapshots(place: str, words: Sequence[str], settings: Settings) -> list[str]:
    from strongroom.cli.access import open_store

    settings = settings._replace(
        identity_folder=_given(words, "--identity") or settings.identity_folder
    )
    with closing(open_store(place, settings)) as store:
        listed = sorted(store.list("snapshots"), key=lambda info: -info.modified_ns)
    return [info.name[:_SHORT_ID] for info in listed[:_MOST]]


def _clients(words: Sequence[str], settings: Settings) -> list[str]:
    return [one["name"] for one in _asked(words, settings, "/clients")]


def _jobs(words: Sequence[str], settings: Settings) -> list[str]:
    return [one["name"] for one in _asked(words, settings, "/jobs")]


def _runs(words: Sequence[str], settings: Settings) -> list[str]:
    return [one["id"][:_SHORT_ID] for one in _asked(words, settings, "/runs", limit=50)]


_FINDERS: Final[dict[str, Callable[[Sequence[str], Settings], list[str]]]] = {
    "snapshots": _snapshots,
    "clients": _clients,
    "jobs": _jobs,
    "runs": _runs,
}


def _asked(
    words: Sequence[str], settings: Settings, path: str, **query: object
) -> list[dict[str, str]]:
    from strongroom.cli.console.client import open_director

    options = ("director", "token_file", "identity", "authority")
    given = {name: _given(words, "--" + name.replace("_", "-")) or None for name in options}
    arguments = argparse.Namespace(settings=settings, warn=lambda _: None, **given)
    with open_director(arguments) as director:
        answer = director.get(path, **{name: value or None for name, value in query.items()})
    found: list[dict[str, str]] = answer["items"]
    return found


def _given(words: Sequence[str], option: str) -> str:
    """The value of an option among words that may be half a command line; "" without one."""
    value = ""
    for number, word in enumerate(words):
        if word == option and number + 1 < len(words):
            value = words[number + 1]
        elif word.startswith(f"{option}="):
            value = word.partition("=")[2]
    return value


def _within(seconds: float, find: Callable[[], list[str]]) -> list[str]:
    """What `find` gives; nothing when it fails or takes longer.

    It runs in a process of its own: a file system that does not answer cannot be interrupted.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nowhere, stream)
            os.close(reading)
            text = "\n".join(find()).encode("utf-8", "replace")
            while text:
                text = text[os.write(writing, text) :]
        os._exit(0)
    os.close(writing)
    data = b""
    end = clock.elapsed_seconds() + seconds
    with open(reading, "rb", buffering=0) as pipe:
        while len(data) < _MOST_BYTES:
            left = end - clock.elapsed_seconds()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                data = b""
                break
            if not (more := pipe.read(1 << 16)):
                break
            data += more
    os.kill(child, signal.SIGKILL)
    # One that hangs in the kernel is left to init.
    os.waitpid(child, os.WNOHANG)
    return data.decode("utf-8", "replace").split("\n") if data else []
