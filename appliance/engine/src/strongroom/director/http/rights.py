"""What a caller may see and do: the permissions (ACL) of Console, User and Profile resources.

As in Bareos: the entries of a list are tried in their order and the first match decides: it
allows, or with `!` before it denies; `*all*` matches everything; an entry matches a name that it
equals regardless of case, or that it matches whole as a POSIX extended regular expression. A list
without a match leaves the decision to the Profiles, in their order; the default is to deny.

Two rules are stricter than in Bareos. A `Where ACL` entry also covers what is below the folder it
names, so a denied folder cannot be reached by naming one inside it. A restore in place counts as
`/` unless no Where ACL is set at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from strongroom.base.errors import NotPermittedError, UsageError
from strongroom.config.settings.permissions import (
    PERMISSION_KINDS,
    PermissionKind,
    PermissionSettings,
)
from strongroom.engine.restore.target import ALL, compiled_entry, denied_below, where_verdict

_IN_PLACE = "/"

# Action of the API -> the commands that allow it, ours first, then those of Bareos's console.
# The first of them that a list mentions decides.
COMMANDS: dict[str, tuple[str, ...]] = {
    "status": ("status",),
    "clients": ("clients", "list", "llist"),
    "jobs": ("jobs", "list", "llist", "show"),
    "runs": ("runs", "list", "llist"),
    "log": ("log", "list", "llist", "messages"),
    "watch": ("watch", "list", "llist", "messages"),
    "snapshots": ("snapshots", "list", "llist"),
    "browse": ("browse", "restore", ".bvfs_lsdirs", ".bvfs_lsfiles"),
    "run": ("run",),
    "cancel": ("cancel",),
    "accept": ("accept", "forget", "delete"),
    "restore": ("restore",),
    "keep-privileges": ("keep-privileges",),
    "estimate": ("estimate",),
    "forget": ("forget", "delete"),
    "bandwidth": ("bandwidth", "setbandwidth"),
    "reload": ("reload",),
    "client": ("client", "configure"),
    "config": ("config", "show"),
    "audit": ("audit",),
    "token": ("token", "configure"),
    "notify": ("notify",),
    "metrics": ("metrics", "status"),
}


@dataclass(frozen=True, slots=True)
class CallerRights:
    """All rights of one caller, for one request.

    `layers`: each the lists of a resource and its Profiles, nearest first; every layer must allow.
    """

    layers: tuple[tuple[PermissionSettings, ...], ...] = ()
    everything: bool = False
    # Verdicts about names, and whether all of a kind are permitted. A listing asks for the same
    # thousands of times.
    _verdicts: dict[tuple[str, str], bool | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _every: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls, permissions: PermissionSettings, profiles: Mapping[str, PermissionSettings]
    ) -> CallerRights:
        """Those of a Profile, or of a Console or User with its Profiles."""
        named = [profiles[name] for name in permissions.profiles if name in profiles]
        return cls(((permissions, *named),))

    def limited_to(self, other: CallerRights) -> CallerRights:
        """What both allow."""
        if self.everything or other.everything:
            return other if self.everything else self
        return CallerRights(self.layers + other.layers)

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is denied: the first entry for each kind is `*all*`."""
        return all(self.permits_every(kind) for kind in PERMISSION_KINDS)

    def verdict(self, kind: PermissionKind, name: str) -> bool | None:
        """Whether `name` is allowed or denied; None where a layer does not mention it."""
        if self.everything:
            return True
        key = (kind, name)
        if key not in self._verdicts:
            verdicts = [_verdict(layer, kind, name) for layer in self.layers] or [None]
            doubt = None if None in verdicts else True
            self._verdicts[key] = False if False in verdicts else doubt
        return self._verdicts[key]

    def permits(self, kind: PermissionKind, name: str) -> bool:
        """Whether a resource of this name may be seen and used; always for an empty name."""
        return not name or self.permits_every(kind) or bool(self.verdict(kind, name))

    def permits_all(self, **names: str) -> bool:
        """Whether all of these may be seen: `permits_all(job="nightly", client="web1")`."""
        return all(self.permits(kind, name) for kind, name in names.items())  # type: ignore[arg-type]

    def permits_every(self, kind: PermissionKind) -> bool:
        """Whether every resource of a kind may be seen: its first entry is `*all*`."""
        if kind not in self._every:
            self._every[kind] = self.everything or (
                bool(self.layers)
                and all(_first_entry(layer, kind).lower() == ALL for layer in self.layers)
            )
        return self._every[kind]

    def permits_command(self, action: str, or_by: str = "") -> bool:
        """Whether an action of COMMANDS may be done at all.

        `or_by`: another that allows it as well, where no list mentions the action itself.
        """
        for name in (*COMMANDS[action], *COMMANDS.get(or_by, ())):
            verdict = self.verdict("command", name)
            if verdict is not None:
                return verdict
        return False

    def permits_where(self, target: str) -> bool:
        """Whether files may be restored to `target`, an absolute path; "" or "/" is in place."""
        if self.everything:
            return True
        place = target or _IN_PLACE
        return bool(self.layers) and all(
            bool(_verdict(layer, "where", place))
            or (place == _IN_PLACE and not _first_entry(layer, "where"))
            for layer in self.layers
        )

    def where_layers(self) -> tuple[tuple[str, ...], ...]:
        """The Where ACLs that deny anything, for the agent (StartRestore)."""
        if self.everything:
            return ()
        return tuple(
            _entries(layer, "where")
            for layer in self.layers
            if _first_entry(layer, "where").lower() != ALL
        )

    def require_command(self, action: str) -> None:
        """Raise NotPermittedError unless `action` of COMMANDS is allowed."""
        if not self.permits_command(action):
            raise NotPermittedError(
                f"the command `{COMMANDS[action][0]}` is not allowed here; "
                "the Command ACL of your Console or its Profile would have to name it"
            )

    def require(self, kind: PermissionKind, *names: str) -> None:
        """Raise NotPermittedError unless every one of `names` is allowed."""
        for name in names:
            if not self.permits(kind, name):
                raise NotPermittedError(
                    f"{_title(kind)} {name!r} is not allowed here; the {_title(kind)} ACL of your "
                    "Console or its Profile would have to name it"
                )

    def require_used(self, what: str, kind: PermissionKind, name: str) -> None:
        """The same for a resource that the caller did not name: `what` uses it.

        The error does not name it either.
        """
        if not self.permits(kind, name):
            raise NotPermittedError(
                f"{what} uses a {_title(kind)} that is not allowed here; the {_title(kind)} ACL of "
                "your Console or its Profile would have to name it"
            )

    def require_where(self, target: str, paths: Sequence[str] = ()) -> None:
        """Raise NotPermittedError unless these paths (absolute; none: all) may go to `target`.

        What is denied by name must not lie within what is restored, nor around it.
        """
        denied = "" if self.permits_where(target) else target or _IN_PLACE
        for path in paths or [_IN_PLACE]:
            place = (target + path).rstrip("/") or _IN_PLACE
            for layer in self.layers:
                entries = _entries(layer, "where")
                if where_verdict(entries, place) is False:
                    denied = denied or place
                denied = denied or denied_below(entries, place)
        if denied:
            raise NotPermittedError(
                f"files may not be restored to {denied}; the Where ACL of your Console or its "
                "Profile would have to allow it"
            )


def checked_target(target: str) -> str:
    """`target` without needless slashes, "" for in place. Raises UsageError.

    Only absolute paths without `..` can be judged by a list of folders.
    """
    if target in ("", _IN_PLACE):
        return ""
    parts = target.split("/")
    if parts[0] or ".." in parts or "\0" in target:
        raise UsageError(f"a target is an absolute path without `..`, not {target!r}")
    return "/" + "/".join(part for part in parts if part not in ("", "."))


def _verdict(layer: Iterable[PermissionSettings], kind: PermissionKind, name: str) -> bool | None:
    entries = _entries(layer, kind)
    if kind == "where":
        return where_verdict(entries, name)
    for entry in entries:
        pattern = entry.removeprefix("!")
        if pattern.lower() == ALL or _fits(pattern, name):
            return not entry.startswith("!")
    return None


def _entries(layer: Iterable[PermissionSettings], kind: PermissionKind) -> tuple[str, ...]:
    return tuple(entry for one in layer for entry in one.entries(kind))


def _first_entry(layer: Iterable[PermissionSettings], kind: PermissionKind) -> str:
    return next(iter(_entries(layer, kind)), "")


def _fits(pattern: str, name: str) -> bool:
    if pattern.lower() == name.lower():
        return True
    compiled = compiled_entry(pattern, minds_case=False)
    return compiled is not None and compiled.fullmatch(name) is not None


def _title(kind: PermissionKind) -> str:
    return "FileSet" if kind == "fileset" else kind.capitalize()
