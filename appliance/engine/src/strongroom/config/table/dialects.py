"""Which language a tree is written in, and how severely it is judged.

`strongroom` is Bareos 26 with our own directives and values. A dialect says what is known
(introduced, deprecated, retired directives; Bacula's own). Strictness is a separate matter: strict
rejects exactly what the daemon of that dialect would reject; otherwise what is unknown or retired
is a warning, and parsing goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.errors import UsageError


@dataclass(frozen=True, slots=True)
class Dialect:
    """One product at one major version."""

    name: str
    family: str  # strongroom, bareos or bacula
    version: int

    @property
    def has_own(self) -> bool:
        """Whether Strongroom's own directives and values belong to this dialect."""
        return self.family == "strongroom"

    @property
    def is_bacula(self) -> bool:
        """Whether Bacula's directives and its laxer values belong to this dialect."""
        return self.family == "bacula"


STRONGROOM = Dialect("strongroom", "strongroom", 26)
BAREOS_26 = Dialect("bareos26", "bareos", 26)
DIALECTS: dict[str, Dialect] = {
    "strongroom": STRONGROOM,
    **{
        f"bareos{version}": Dialect(f"bareos{version}", "bareos", version)
        for version in range(23, 26)
    },
    "bareos26": BAREOS_26,
    **{
        f"bacula{version}": Dialect(f"bacula{version}", "bacula", version)
        for version in range(9, 16)
    },
}


def dialect_named(name: str | None, *, strict: bool = False) -> Dialect:
    """The dialect called `name`; without a name ours, or Bareos 26 with `strict`.

    Raises UsageError for a name that is not one.
    """
    if name is None:
        return BAREOS_26 if strict else STRONGROOM
    if name not in DIALECTS:
        raise UsageError(f"there is no dialect `{name}`; there are {', '.join(DIALECTS)}")
    return DIALECTS[name]
