"""What became of the last update: a file of the state, which both roots read."""

from __future__ import annotations

import os
from typing import Final, Literal

import msgspec

from strongroom.base import clock
from strongroom.base.errors import DamageError
from strongroom.net.identities.private_files import PUBLIC_MODE, read_bounded, write_file
from strongroom_appliance.machine import STATE_FOLDER

RECORD_FILE: Final = f"{STATE_FOLDER}/update.json"
_MOST_BYTES: Final = 1 << 20


class UpdateRecord(msgspec.Struct, kw_only=True):
    """slot: what it was written to. reasons: why a root was found not to work. at: UTC."""

    slot: Literal["a", "b"]
    image: str
    version: str
    result: Literal["written", "good", "failed"]
    reasons: list[str] = []
    at: str = ""


def read_record() -> UpdateRecord | None:
    """None before the first update. Raises DamageError."""
    try:
        return msgspec.json.decode(
            read_bounded(os.fsencode(RECORD_FILE), _MOST_BYTES), type=UpdateRecord
        )
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise DamageError(f"{RECORD_FILE} is damaged: {error}; remove it") from error


def write_record(record: UpdateRecord) -> None:
    """Put it on disk."""
    record.at = clock.utc_text(clock.now_ns())
    os.makedirs(STATE_FOLDER, 0o700, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(record), indent=2)
    write_file(os.fsencode(RECORD_FILE), text + b"\n", PUBLIC_MODE)
