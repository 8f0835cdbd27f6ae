"""What setup remembers beside the data: which texts of files are its own, and what stays.

    STATE/setup.json

A text is noted before it is written, so a file whose text is unknown was changed by somebody else.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec
from blake3 import blake3

from strongroom.base.errors import DamageError
from strongroom.net.identities.private_files import SECRET_MODE, read_bounded, write_file

_NAME: Final = "setup.json"
_GREATEST_BYTES: Final = 4 << 20


class _Remembered(msgspec.Struct):
    """files: path -> digests of the texts that setup wrote there, the newest last.

    stays: answer -> its value, of those that cannot change. begun: folders in which a repository
    was begun. done: steps that are not checked again.
    """

    files: dict[str, list[str]] = {}
    stays: dict[str, str] = {}
    begun: list[str] = []
    done: list[str] = []


class SetupRecord:
    """What setup has done on this machine. Every change is on disk when the method returns."""

    def __init__(self, state: str) -> None:
        self._path = os.fsencode(os.path.join(state, _NAME))
        try:
            data = read_bounded(self._path, _GREATEST_BYTES)
            self._known = msgspec.json.decode(data, type=_Remembered)
        except FileNotFoundError:
            self._known = _Remembered()
        except msgspec.DecodeError as error:
            raise DamageError(f"{os.fsdecode(self._path)} is damaged: {error}") from error

    @property
    def stays(self) -> dict[str, str]:
        """Answers that cannot change any more."""
        return self._known.stays

    def keep(self, answers: dict[str, str]) -> None:
        """Note what stays from now on."""
        if self._known.stays != answers:
            self._known.stays = answers
            self._write()

    def is_ours(self, path: str, text: bytes) -> bool:
        """Whether setup wrote this text there."""
        return _digest(text) in self._known.files.get(path, ())

    def is_newest(self, path: str, text: bytes) -> bool:
        """Whether this text is the last that setup wrote, or was about to write, there."""
        return self._known.files.get(path, [])[-1:] == [_digest(text)]

    def note_text(self, path: str, text: bytes) -> None:
        """A text is about to be written there."""
        digest = _digest(text)
        others = [one for one in self._known.files.get(path, ()) if one != digest]
        self._known.files[path] = [*others, digest]
        self._write()

    def has(self, step: str) -> bool:
        """Whether a step was done."""
        return step in self._known.done

    def note(self, step: str) -> None:
        """A step is done."""
        if step not in self._known.done:
            self._known.done.append(step)
            self._write()

    def has_begun(self, repository: str) -> bool:
        """Whether a repository was begun here, by setup."""
        return repository in self._known.begun

    def begin(self, repository: str) -> None:
        """A repository is about to be made here."""
        if repository not in self._known.begun:
            self._known.begun.append(repository)
            self._write()

    def _write(self) -> None:
        write_file(self._path, msgspec.json.encode(self._known), SECRET_MODE)


def _digest(text: bytes) -> str:
    return blake3(text).hexdigest()
