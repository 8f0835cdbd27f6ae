"""How a machine joins a director in one step, and leaves it.

What `join` does, in this order: its key (kept until all is done, so that what was interrupted can
be repeated), certificate, put keys, `agent.d/director/NAME.conf`, `agent.d/client/myself.conf`, the
authority for restores, the owner of the agent's folder. Each is left as it is where it is right
already, so that a second call changes nothing. A configuration that somebody else wrote is kept.

Root joins, and the agent's folder may hold what a compromised agent left there. So nothing that is
found in it decides whom restores as root trust, or which key a new certificate is for: that key is
kept beside the configuration.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import ssl
from dataclasses import dataclass, field
from typing import Final

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

import strongroom
from strongroom.agent.connections import CONNECT_PATH
from strongroom.agent.conversation import machine_digest
from strongroom.agent.enrolment import USUAL_PORT, enrol, fetch_put_keys, place_of
from strongroom.agent.put_keys import read_put_keys
from strongroom.agent.restore_authority import (
    keep_restore_authority,
    require_restore_authority,
    restore_authority_path,
)
from strongroom.agent.settings import AgentSettings, KnownDirector, load_settings
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import (
    ConfigurationError,
    ConflictError,
    DirectorError,
    KeyRightError,
    PeerRefusedError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.config.trees.loader import component_files, has_component
from strongroom.config.trees.printer import quoted
from strongroom.net.channels.listening import host_in_url
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import CLOSE_LEFT, OWN_HEADERS, PROTOCOL_VERSION, Hello, encode
from strongroom.net.identities.enrolment_tokens import fingerprint_in
from strongroom.net.identities.identity import Identity, has_identity, new_key
from strongroom.net.identities.private_files import (
    PUBLIC_MODE,
    SECRET_MODE,
    give_tree,
    read_bounded,
    write_file,
)
from strongroom.net.identities.trust import fingerprint, roots_of
from strongroom.net.renewal import DirectorAddress

_PATIENCE_SECONDS: Final = 30.0


def give_up(settings: AgentSettings) -> KnownDirector:
    """Tell the director that this machine is not its client, and remove certificate and keys.

    Returns the director asked. Raises UsageError, PeerRefusedError, DirectorError, OSError.
    """
    identity = Identity.load(settings.identity_folder)
    for director in settings.directors.values():
        if director.address:
            _tell(director, identity)
            shutil.rmtree(settings.identity_folder)
            return director
    raise UsageError("no Director resource has an Address, so no director can be informed")


def _tell(director: KnownDirector, identity: Identity) -> None:
    where = f"Director {printable(director.name)} at {director.address}:{director.port}"
    hello = Hello(
        name=identity.name,
        protocol=PROTOCOL_VERSION,
        version=strongroom.__version__,
        platform="",
        clock_ns=clock.now_ns(),
        boot_id=clock.boot_id(),
        instance=clock.random_bytes(8).hex(),
        machine=machine_digest(),
        leaves=True,
    )
    try:
        with connect(
            f"wss://{host_in_url(director.address)}:{director.port}{CONNECT_PATH}",
            ssl=client_context(identity, check_hostname=False),
            additional_headers=OWN_HEADERS,
            compression=None,
            open_timeout=_PATIENCE_SECONDS,
        ) as connection:
            assert isinstance(connection.socket, ssl.SSLSocket)
            certificate = connection.socket.getpeercert(binary_form=True) or b""
            identity.trust.judge_server(certificate, director.name, ("director",))
            connection.send(encode(hello).decode())
            connection.recv(_PATIENCE_SECONDS)
    except ConnectionClosed as error:
        if error.rcvd is not None and error.rcvd.code == CLOSE_LEFT:
            return
        why = error.rcvd.reason if error.rcvd is not None else "it ended the connection"
        raise DirectorError(f"{where} refuses: {why}; nothing was changed") from error
    except (OSError, TimeoutError, InvalidHandshake) as error:
        raise DirectorError(f"{where} is not reachable: {error}; nothing was changed") from error
    raise DirectorError(f"{where} is of a version without `rejoin`; upgrade it first")


USUAL_STATE: Final = "/var/lib/strongroom/agent"
_OWNER: Final = "strongroom-agent"
_MARK: Final = "# Written by `strongroom agent join`; `strongroom agent leave` removes it.\n"
_KEY: Final = "joining.pem"
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GREATEST_FILE_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to join, and as whom. "" where nothing was given, or there is none.

    configuration: the folder with agent.d. state: the folder of the agent's data.
    """

    url: str
    token: str
    name: str
    fingerprint: str
    configuration: str
    state: str


@dataclass(slots=True)
class Joined:
    """The agent as it is now; changed: what was done for it, in words."""

    name: str
    director: str
    identity: Identity
    settings: AgentSettings
    changed: list[str] = field(default_factory=list)


def join(wanted: Wanted, host_name: str) -> Joined:
    """Make this machine an agent of the director. host_name: its name where none is stated.

    Raises UsageError, ConflictError, PeerRefusedError, DirectorError, ConfigurationError.
    """
    host, port, _ = place_of(wanted.url)
    expected = _expected_fingerprint(wanted)
    if os.geteuid() == 0:
        require_restore_authority(wanted.configuration, expected)
    settings = _configured(wanted)
    name = wanted.name or (settings.name if settings else host_name)
    if settings and settings.name != name:
        raise ConflictError(
            f"the configuration in {wanted.configuration} is that of {settings.name!r}, not of "
            f"{name!r}; run `strongroom agent leave` first"
        )
    state = settings.working_folder if settings else wanted.state
    folder = settings.identity_folder if settings else os.path.join(state, "identity")
    changed: list[str] = []
    identity = _usable(folder, name, expected)
    director = ""
    if identity is not None:
        director = _confirmed(identity, host, port, wanted, settings)
    if identity is None or not director:
        if not wanted.token:
            raise UsageError(
                "this machine has no valid certificate yet: give an enrolment "
                "token with --token-file FILE (`-` reads standard input)"
            )
        key_pem = _kept_key(wanted.configuration)
        known = tuple(settings.directors) if settings else ()
        identity, director = enrol(wanted.url, name, wanted.token, expected, folder, known, key_pem)
        changed.append(f"enrolled as {name} at director {director}")
    changed += _write_configuration(wanted, state, name, director, host, port, settings)
    if os.geteuid() == 0:
        changed += _authority_for_restores(wanted.configuration, identity, expected)
        changed += _give_to_agent(state)
    _forget_key(wanted.configuration)
    settings = load_settings(wanted.configuration)
    if director not in settings.directors:
        raise ConflictError(
            f"{wanted.configuration} names no Director {director!r}: add one with Address = {host}"
        )
    return Joined(name, director, identity, settings, changed)


def leave(configuration: str) -> list[str]:
    """Remove certificate, keys and the files that `join` wrote; returns what was done.

    What somebody has edited stays. Raises ConfigurationError, OSError.
    """
    if not has_component(configuration, "agent"):
        return []
    settings = load_settings(configuration)
    done = []
    if os.path.isdir(settings.identity_folder):
        shutil.rmtree(settings.identity_folder)
        done.append(f"removed {settings.identity_folder}")
    for path in component_files(configuration, "agent")["agent"]:
        if _read(path).startswith(_MARK):
            os.unlink(path)
            done.append(f"removed {path}")
    _forget_key(configuration)
    authority = restore_authority_path(configuration)
    if os.geteuid() == 0 and os.path.exists(authority):
        os.unlink(authority)
        done.append(f"removed {authority}")
    return done


def _expected_fingerprint(wanted: Wanted) -> str:
    stated = "".join(wanted.fingerprint.split()).replace(":", "").lower()
    if not wanted.token:
        return stated
    in_token = fingerprint_in(wanted.token)
    if stated and stated != in_token:
        raise PeerRefusedError(
            f"the token is of an authority with the fingerprint {in_token}, not {stated}: it is "
            "not a token of the director that you mean"
        )
    return in_token


def _configured(wanted: Wanted) -> AgentSettings | None:
    """The configuration, if there is one; None for one that `join` has begun to write."""
    if not has_component(wanted.configuration, "agent"):
        return None
    try:
        return load_settings(wanted.configuration)
    except (ConfigurationError, UsageError):
        files = component_files(wanted.configuration, "agent")["agent"]
        if all(_read(path).startswith(_MARK) for path in files):
            return None
        raise


def _usable(folder: str, name: str, expected: str) -> Identity | None:
    """The identity that is there, unless it has ended.

    Raises ConflictError for one of another name or authority.
    """
    if not has_identity(folder):
        return None
    try:
        identity = Identity.load(folder)
    except UsageError:  # damaged: a token makes a new one
        return None
    if identity.not_after.timestamp() * SECOND_NS <= clock.now_ns():
        return None
    found = fingerprint(roots_of(identity.authority_pem)[0])
    if identity.role != "agent" or identity.name != name or (expected and found != expected):
        raise ConflictError(
            f"this machine is {identity.peer} of the authority {found[:16]}... already; "
            "run `strongroom agent leave` first"
        )
    return identity


def _confirmed(
    identity: Identity, host: str, port: int, wanted: Wanted, settings: AgentSettings | None
) -> str:
    """The director that accepts our certificate, whose put keys are here then; "" for none.

    Where it cannot be reached, the one of the configuration. Raises DirectorError without one.
    """
    known = settings.directors.values() if settings else ()
    name = next((one.name for one in known if (one.address, one.port) == (host, port)), "")
    try:
        return fetch_put_keys(DirectorAddress(host, port, name), identity)
    except PeerRefusedError:
        if not wanted.token:
            raise
        return ""
    except DirectorError:
        try:
            read_put_keys(os.fsdecode(identity.folder))
        except KeyRightError:
            name = ""
        if not name:
            raise
        return name


def _kept_key(configuration: str) -> bytes:
    """A key that is there until all is done: of an attempt before, or a new one."""
    path = os.fsencode(os.path.join(configuration, _KEY))
    try:
        return read_bounded(path, _GREATEST_FILE_BYTES)
    except FileNotFoundError:
        pass
    key_pem = new_key()
    os.makedirs(configuration, 0o755, exist_ok=True)
    write_file(path, key_pem, SECRET_MODE)
    return key_pem


def _forget_key(configuration: str) -> None:
    path = os.path.join(configuration, _KEY)
    if os.path.exists(path):
        os.unlink(path)


def _write_configuration(
    wanted: Wanted,
    state: str,
    name: str,
    director: str,
    host: str,
    port: int,
    settings: AgentSettings | None,
) -> list[str]:
    if settings is not None:
        return []
    top = os.path.join(wanted.configuration, "agent.d")
    place = ""
    if state != USUAL_STATE:
        place = f"  Working Directory = {quoted(state)}\n"
        place += f"  Identity Directory = {quoted(os.path.join(state, 'identity'))}\n"
    port_line = "" if port == USUAL_PORT else f"  Port = {port}\n"
    file_name = director if _PLAIN.fullmatch(director) else "director"
    texts = {
        os.path.join(top, "director", f"{file_name}.conf"): (
            f"Director {{\n  Name = {quoted(director)}\n  Password = unused\n"
            f"  Address = {quoted(host)}\n{port_line}}}\n"
        ),
        os.path.join(top, "client", "myself.conf"): (
            f"Client {{\n  Name = {quoted(name)}\n{place}}}\n"
        ),
    }
    changed = []
    for path, text in texts.items():
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        if not os.path.exists(path) or _read(path) != _MARK + text:
            write_file(os.fsencode(path), (_MARK + text).encode(), PUBLIC_MODE)
            changed.append(f"wrote {path}")
    return changed


def _authority_for_restores(configuration: str, identity: Identity, expected: str) -> list[str]:
    if not expected:
        return []
    path = keep_restore_authority(configuration, identity.authority_pem, expected)
    return [f"wrote {path}"] if path else []


def _give_to_agent(state: str) -> list[str]:
    """Give the agent's folder to its user, where there is one."""
    try:
        user = pwd.getpwnam(_OWNER).pw_uid
    except KeyError:
        return []
    if all(
        os.lstat(os.path.join(place, one)).st_uid == user
        for place, folders, names in os.walk(state)
        for one in ("", *folders, *names)
    ):
        return []
    give_tree(os.fsencode(state), _OWNER)
    return [f"gave {state} to {_OWNER}"]


def _read(path: str) -> str:
    return read_bounded(os.fsencode(path), _GREATEST_FILE_BYTES).decode("utf-8", "surrogateescape")
