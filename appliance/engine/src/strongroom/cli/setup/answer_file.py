"""The answers that an appliance is made of: a TOML file, typed, with a default for all but one.

An unknown key, a wrong type or an impossible value is an error that names the file and the key.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable
from strongroom.cli.setup.repository_place import is_bucket
from strongroom.config.values.measures import duration_seconds
from strongroom.net.identities.peer import check_name

_GREATEST_BYTES: Final = 1 << 20
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TIME: Final = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]")
_PORTS: Final = range(1, 65536)


@dataclass(frozen=True, slots=True)
class Answers:
    """See QUESTIONS, which has the meaning and default of each."""

    address: str
    further_addresses: tuple[str, ...]
    organisation: str
    groups: tuple[str, ...]
    plain_clients: tuple[str, ...]
    backup_time: str
    keep_daily: int
    keep_weekly: int
    keep_monthly: int
    minimum_retention: str
    repository: str
    director_name: str
    director_port: int
    storage_name: str
    storage_port: int
    operator: str
    operator_home: str
    configuration: str
    state: str
    storage_socket: str
    director_user: str
    storage_user: str
    group: str

    @property
    def director_url(self) -> str:
        """Where agents, operators and browsers reach the director."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"https://{host}:{self.director_port}"

    def below_state(self, *names: str) -> str:
        """A path in the folder of the appliance's data."""
        return os.path.join(self.state, *names)


@dataclass(frozen=True, slots=True)
class SetupQuestion:
    """One answer: what it means; its default, None where it must be given; whether it is asked."""

    name: str
    default: Any
    text: str
    check: Callable[[Any], bool]
    expected: str
    is_asked: bool = False


def _is_plain(text: str) -> bool:
    return bool(_PLAIN.fullmatch(text))


def _is_host(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9.:_-]+", text))


def _is_path(text: str) -> bool:
    return text.startswith("/") and ".." not in text.split("/") and text.isprintable()


def _is_span(text: str) -> bool:
    return duration_seconds(text) is not None


def _is_name(text: str) -> bool:
    try:
        return bool(check_name(text))
    except UsageError:
        return False


_PLAIN_WORDS: Final = "letters, digits, dots, dashes and underscores"
_PATH_WORDS: Final = "an absolute path"
_USER_WORDS: Final = 'a user of this machine, or "" for anyone who runs this'

QUESTIONS: Final = (
    SetupQuestion(
        "address", None, "The name (or address) at which agents reach this machine.",
        _is_host, "a DNS name or an address", is_asked=True,
    ),
    SetupQuestion(
        "further_addresses", [], "More names and addresses of it, for its certificates.",
        lambda value: all(map(_is_host, value)), "DNS names and addresses",
    ),
    SetupQuestion(
        "organisation", "Strongroom", "The name of the certificate authority.",
        _is_name, "a printable name",
    ),
    SetupQuestion(
        "groups", ["servers"],
        "Groups of clients. Each gets JobDefs of its name; `strongroom ca token --group` lets "
        "machines join. None, if you write the JobDefs yourself.",
        lambda value: all(map(_is_plain, value)), _PLAIN_WORDS,
    ),
    SetupQuestion(
        "plain_clients", [],
        "Clients that may send without TLS. What they store is encrypted all the same.",
        lambda value: all(map(_is_plain, value)), _PLAIN_WORDS,
    ),
    SetupQuestion(
        "backup_time", "21:00", "When backups begin, every day.",
        lambda value: bool(_TIME.fullmatch(value)), "a time such as 21:00", is_asked=True,
    ),
    SetupQuestion("keep_daily", 14, "For how many days a daily backup is kept.",
             lambda value: value >= 0, "0 or more"),
    SetupQuestion("keep_weekly", 8, "Of how many weeks.", lambda value: value >= 0, "0 or more"),
    SetupQuestion("keep_monthly", 12, "Of how many months.", lambda value: value >= 0, "0 or more"),
    SetupQuestion(
        "minimum_retention", "7 days", "Before that no one can delete a backup.",
        _is_span, "a time such as 7 days",
    ),
    SetupQuestion(
        "repository", "/var/lib/strongroom/repository",
        "Where backups are stored: a folder, on its own disk if possible, or s3://BUCKET/PREFIX.",
        lambda value: _is_path(value) or is_bucket(value),
        f"{_PATH_WORDS} or s3://BUCKET/PREFIX", is_asked=True,
    ),
    SetupQuestion("director_name", "vault-dir", "The director's name. It stays.",
             _is_plain, _PLAIN_WORDS),
    SetupQuestion("director_port", 9101, "Its port.", lambda value: value in _PORTS, "1 to 65535"),
    SetupQuestion("storage_name", "vault", "The storage daemon's name. It stays.",
             _is_plain, _PLAIN_WORDS),
    SetupQuestion("storage_port", 9103, "Its port.", lambda value: value in _PORTS, "1 to 65535"),
    SetupQuestion("operator", "admin", "The operator with all rights.", _is_plain, _PLAIN_WORDS),
    SetupQuestion(
        "operator_home", "/root",
        "The home of the operator: .config/strongroom in it gets the certificate and console.toml.",
        _is_path, _PATH_WORDS,
    ),
    SetupQuestion("configuration", "/etc/strongroom", "The folder of the configuration.",
             _is_path, _PATH_WORDS),
    SetupQuestion("state", "/var/lib/strongroom", "The folder of keys, catalog and authority.",
             _is_path, _PATH_WORDS),
    SetupQuestion("storage_socket", "/run/strongroom-storage/storage.sock",
             "Where the director reaches the storage daemon.", _is_path, _PATH_WORDS),
    SetupQuestion("director_user", "strongroom-director", "The director's user.",
             lambda value: not value or _is_plain(value), _USER_WORDS),
    SetupQuestion("storage_user", "strongroom-storage", "The storage daemon's user.",
             lambda value: not value or _is_plain(value), _USER_WORDS),
    SetupQuestion("group", "strongroom", "The group of both.",
             lambda value: not value or _is_plain(value), "a group of this machine"),
)  # fmt: skip
_BY_NAME: Final = {one.name: one for one in QUESTIONS}


def read_answers(path: str) -> Answers:
    """The answers in a file. Raises UsageError."""
    try:
        with open(path, "rb") as file:
            given = tomllib.loads(file.read(_GREATEST_BYTES).decode())
    except OSError as error:
        raise UsageError(f"cannot read {printable(path)}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{printable(path)}: {error}") from error
    return settled(given, path)


def settled(given: Mapping[str, Any], path: str) -> Answers:
    """All answers of those that were given in `path`. Raises UsageError."""
    for name, value in given.items():
        question = _BY_NAME.get(name)
        if question is None:
            near = get_close_matches(name, _BY_NAME, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(_BY_NAME)}"
            raise UsageError(f"{printable(path)}: unknown answer `{printable(name)}`; {hint}")
        _check(question, value, path)
    missing = [one.name for one in QUESTIONS if one.default is None and one.name not in given]
    if missing:
        raise UsageError(
            f"{printable(path)}: `{missing[0]}` is missing: {_BY_NAME[missing[0]].text}"
        )
    values: dict[str, Any] = {one.name: given.get(one.name, one.default) for one in QUESTIONS}
    assert {field.name for field in fields(Answers)} == values.keys()
    if values["director_name"] == values["storage_name"]:
        raise UsageError(f"{printable(path)}: director_name and storage_name must differ")
    lists = {name: tuple(one) for name, one in values.items() if isinstance(one, list)}
    return Answers(**values | lists)


def commented_example() -> str:
    """A whole answer file, with the defaults as comments."""
    lines = [
        "# Answers for `strongroom setup appliance --answers FILE`. All but the first have these"
    ]
    lines += ["# defaults.", ""]
    for one in QUESTIONS:
        lines.append(f"# {one.text}")
        value = "vault.example.org" if one.default is None else one.default
        lines += [f"{'' if one.default is None else '# '}{one.name} = {_toml(value)}", ""]
    return "\n".join(lines)


def toml_text(given: Mapping[str, Any]) -> str:
    """Answers as a file."""
    return "".join(f"{name} = {_toml(value)}\n" for name, value in given.items())


def fault_of(question: SetupQuestion, value: object) -> str:
    """What is expected instead of `value`; empty if it is right."""
    kind = str if question.default is None else type(question.default)
    fits = isinstance(value, kind) and not isinstance(value, bool)
    if fits and isinstance(value, list):
        fits = all(isinstance(one, str) for one in value)
    if fits and question.check(value):
        return ""
    shown = {str: "a text in quotes", int: "a number", list: "a list of texts"}[kind]
    return f"{shown}: {question.expected}"


def _check(question: SetupQuestion, value: object, path: str) -> None:
    expected = fault_of(question, value)
    if expected:
        raise UsageError(
            f"{printable(path)}: `{question.name}` is {expected}; it cannot be "
            f"{printable(str(value)[:100])}"
        )


def _toml(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)
