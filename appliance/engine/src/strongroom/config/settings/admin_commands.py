"""Console commands of jobs of the Type Admin.

    vouch [STORAGE]             verify what agents stored before others may share it
    share [STORAGE]             store once what several clients offer to share
    prune [STORAGE]             vouch, share, give back the space that no snapshot needs, and see
                                which snapshots are there
    backup catalog [STORAGE]    the catalog and the configuration become a snapshot
    rebuild catalog [STORAGE]   enter all snapshots of a repository, mark those that are gone
    expire runs DAYS            remove from the catalog older runs without a snapshot, and what
                                is known of snapshots that were removed earlier

Without STORAGE a command takes the job's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from strongroom.base.errors import UsageError

AdminVerb = Literal["vouch", "share", "prune", "backup catalog", "rebuild catalog", "expire runs"]
_VERBS: Final[tuple[AdminVerb, ...]] = (
    "vouch",
    "share",
    "prune",
    "backup catalog",
    "rebuild catalog",
    "expire runs",
)
_MOST_DAYS: Final = 36_500


@dataclass(frozen=True, slots=True)
class AdminCommand:
    """One command. storage: "" for the job's own. days: of `expire runs`, 0 of the others."""

    verb: AdminVerb
    storage: str = ""
    days: int = 0

    @property
    def needs_storage(self) -> bool:
        """Whether it works on a repository."""
        return self.verb != "expire runs"


def parse_admin_command(text: str) -> AdminCommand:
    """What a command says. Raises UsageError for one that there is not."""
    words = text.split()
    for verb in _VERBS:
        length = len(verb.split())
        if " ".join(words[:length]) != verb:
            continue
        rest = words[length:]
        if verb != "expire runs":
            return AdminCommand(verb, storage=rest[0] if rest else "")
        if not rest or not (rest[0].isascii() and rest[0].isdecimal()):
            raise UsageError("write `expire runs DAYS`")
        return AdminCommand(verb, days=min(int(rest[0][:9]), _MOST_DAYS))
    raise UsageError(
        f"there is no console command {text!r} for admin jobs; there are {', '.join(_VERBS)}"
    )
