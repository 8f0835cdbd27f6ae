"""The last profile that `strongroom baseline` took here, kept in the cache."""

from __future__ import annotations

import os
from pathlib import Path

from strongroom.base.errors import UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.cli.measure.profile import Profile, parse_profile, profile_json
from strongroom.cli.settings import Settings
from strongroom.cli.terminal import Terminal
from strongroom.net.identities.private_files import PUBLIC_MODE, write_file

_NAME = "baseline.json"


def remember(profile: Profile, settings: Settings, terminal: Terminal) -> None:
    """Keep a profile that has a tree, for predictions."""
    path = _path(settings)
    if path is None or profile.tree is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file(os.fsencode(path), profile_json(profile), PUBLIC_MODE)
    except OSError as error:
        terminal.warn(f"{printable(str(path))} cannot be written: {error.strerror}")


def remembered(settings: Settings) -> Profile | None:
    """The profile that is kept; None without one that this program reads."""
    path = _path(settings)
    try:
        return None if path is None else parse_profile(path.read_bytes())
    except (OSError, UsageError):
        return None


def read_profile(path: str) -> Profile:
    """A profile that `baseline -o` wrote. Raises UsageError."""
    with os_errors(f"{printable(path)} cannot be read"):
        text = Path(path).read_bytes()
    try:
        return parse_profile(text)
    except UsageError as error:
        raise UsageError(f"{printable(path)}: {error}") from error


def _path(settings: Settings) -> Path | None:
    folder = settings.cache_folder
    return None if folder is None else Path(os.fsdecode(folder)) / _NAME
