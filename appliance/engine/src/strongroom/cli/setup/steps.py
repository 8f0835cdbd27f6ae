"""The steps that make an appliance. Each checks what is there, and does what is missing.

In this order: folders, authority, passphrase, repository, appliance key, certificates, files of the
configuration. So a setup that was interrupted anywhere is finished by the next one. What holds a
key or data is never replaced: keys and repositories that are there are used, or refused.
"""

from __future__ import annotations

import base64
import fcntl
import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import (
    ConfigurationError,
    ConflictError,
    OperatingSystemError,
    UsageError,
)
from strongroom.cli.access import open_store
from strongroom.cli.setup.answer_file import Answers
from strongroom.cli.setup.configuration_text import (
    configuration_files,
    console_folder,
    console_text,
    operator_folder,
)
from strongroom.cli.setup.record import SetupRecord
from strongroom.cli.setup.repository_place import has_repository, use_access_keys
from strongroom.config.resolve import resolve
from strongroom.config.settings.daemons import is_in_bucket
from strongroom.config.trees.loader import LoadOptions, load_trees
from strongroom.engine.repository.keys.files import export_key, import_key
from strongroom.engine.repository.keys.roles import ApplianceKey
from strongroom.engine.repository.repository import Repository
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import Identity, has_identity
from strongroom.net.identities.private_files import (
    PUBLIC_MODE,
    SECRET_MODE,
    read_bounded,
    write_file,
)
from strongroom.net.identities.trust import host_names

_LOCK: Final = "setup.lock"
_PASSPHRASE_BYTES: Final = 24
_PASSPHRASE_MODE: Final = 0o400
_GREATEST_FILE_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Appliance:
    """An appliance that is being made. changed, kept: in words, what was done, and what was not."""

    answers: Answers
    record: SetupRecord
    users: dict[str, tuple[int, int]]
    fingerprint: str = ""
    changed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    is_reconfigured: bool = False

    @property
    def passphrase_file(self) -> str:
        """The file with the passphrase of the restore key."""
        return self.answers.below_state("director", "passphrase")


def make_appliance(answers: Answers) -> Appliance:
    """Do all steps. Raises StrongroomError, OSError."""
    users = {
        user: _ids(user, answers.group) for user in (answers.director_user, answers.storage_user)
    }
    _folder(answers.state, 0o755, (-1, -1))
    if is_in_bucket(answers.repository):
        use_access_keys(answers.configuration)
    with _locked(answers.state):
        made = Appliance(answers, SetupRecord(answers.state), users)
        _check_what_stays(made)
        _folders(made)
        texts = configuration_files(answers)
        _try_out(made, texts)
        authority = _authority(made)
        made.fingerprint = authority.fingerprint
        _passphrase(made)
        _repository(made)
        _certificates(made, authority)
        _secrets(made)
        for path, text in texts.items():
            _file(made, path, text, PUBLIC_MODE)
        _console(made)
    return made


def _check_what_stays(made: Appliance) -> None:
    answers = made.answers
    stays = {
        "director_name": answers.director_name,
        "storage_name": answers.storage_name,
        "repository": answers.repository,
        "configuration": answers.configuration,
    }
    for name, before in made.record.stays.items():
        if stays.get(name, before) != before:
            raise ConflictError(
                f"`{name}` was {before!r} when this appliance was made, and cannot become "
                f"{stays[name]!r}: certificates, clients or backups depend on it"
            )
    made.record.keep(stays)


def _folders(made: Appliance) -> None:
    answers = made.answers
    director, storage = made.users[answers.director_user], made.users[answers.storage_user]
    root = (-1, -1)
    repository = [] if is_in_bucket(answers.repository) else [answers.repository]
    for path, mode, owner in (
        (answers.below_state("director"), 0o750, director),
        (answers.below_state("ca"), 0o750, director),
        (answers.below_state("storage"), 0o750, storage),
        *((path, 0o750, storage) for path in repository),
        (answers.configuration, 0o755, root),
        (os.path.join(answers.configuration, "director.d"), 0o755, root),
        (os.path.join(answers.configuration, "storage.d"), 0o755, root),
        # Here the director writes what clients that join get.
        (os.path.join(answers.configuration, "director.d", "client"), 0o755, director),
    ):
        if _folder(path, mode, owner):
            made.changed.append(f"made the folder {path}")


def _authority(made: Appliance) -> Authority:
    folder = made.answers.below_state("ca")
    try:
        authority = Authority(folder)
    except UsageError:
        authority = Authority.create(folder, made.answers.organisation)
        made.changed.append(f"made a certificate authority in {folder}")
    _give(folder, made.users[made.answers.director_user])
    return authority


def _passphrase(made: Appliance) -> None:
    path = made.passphrase_file
    if os.path.exists(path):
        return
    if has_repository(made.answers.repository):
        raise ConflictError(
            f"there is a repository in {made.answers.repository}, but no passphrase in {path}: "
            "put it there as one line, or choose another folder for the repository"
        )
    text = base64.b64encode(clock.random_bytes(_PASSPHRASE_BYTES))
    write_file(os.fsencode(path), text + b"\n", _PASSPHRASE_MODE)
    made.changed.append(f"made a passphrase in {path}")


def _repository(made: Appliance) -> None:
    answers, record = made.answers, made.record
    place = answers.repository
    key_file = answers.below_state("director", "appliance.key")
    step = f"repository {place}"
    if record.has(step) and os.path.exists(key_file):
        return
    passphrase = read_bounded(os.fsencode(made.passphrase_file), 4096).split(b"\n", 1)[0]
    if not has_repository(place):
        if not is_in_bucket(place):
            _clear_what_was_begun(made, place)
        record.begin(place)
        repository = Repository.create(open_store(place), passphrase, label="setup")
        made.changed.append(f"made a repository in {place}")
    else:
        repository = Repository.open(open_store(place), passphrase)
    try:
        key = repository.restore_key
        if not os.path.exists(key_file):
            appliance = ApplianceKey(key.repository_id, key.restore_public, key.secret)
            write_file(os.fsencode(key_file), export_key(appliance).encode(), SECRET_MODE)
            made.changed.append(f"made the appliance key {key_file}")
        elif import_key(_text(key_file)).repository_id != key.repository_id:
            raise ConflictError(
                f"{key_file} belongs to another repository than {place}; move it elsewhere if it "
                "is not used"
            )
    finally:
        repository.close()
    if not is_in_bucket(place):
        storage = made.users[answers.storage_user]
        # The users of the machine that made it may have had other numbers.
        if record.has_begun(place) or os.lstat(os.path.join(place, "config")).st_uid != storage[0]:
            _give(place, storage)
    record.note(step)


def _clear_what_was_begun(made: Appliance, place: str) -> None:
    """Remove what an interrupted setup has left; nothing else may be there."""
    if not os.listdir(place):
        return
    packs = os.path.join(place, "packs")
    if not made.record.has_begun(place) or (os.path.isdir(packs) and _files_below(packs)):
        raise ConflictError(
            f"{place} is not empty and not a repository; choose an empty folder, or one that "
            "does not exist"
        )
    for name in os.listdir(place):
        path = os.path.join(place, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _certificates(made: Appliance, authority: Authority) -> None:
    answers = made.answers
    hosts = (answers.address, *answers.further_addresses)
    for name, role, folder, user, own_hosts in (
        (answers.storage_name, "storage", answers.below_state("storage", "identity"),
         answers.storage_user, hosts),
        (answers.director_name, "director", answers.below_state("director", "identity"),
         answers.director_user, hosts),
        (answers.operator, "operator", operator_folder(answers), "", ()),
    ):  # fmt: skip
        if not _is_certified(folder, name, role, own_hosts):
            authority.issue_identity(folder, name, role, own_hosts)
            made.changed.append(f"issued a certificate to {role} {name} in {folder}")
            made.is_reconfigured = True
        _give(folder, made.users.get(user, (-1, -1)))
    _give(os.fsdecode(authority.folder), made.users[answers.director_user])


def _secrets(made: Appliance) -> None:
    """Give what an administrator brought the owner and mode that it has if it is made here."""
    answers = made.answers
    director, storage = made.users[answers.director_user], made.users[answers.storage_user]
    for path, mode, owner in (
        (made.passphrase_file, _PASSPHRASE_MODE, director),
        (answers.below_state("director", "appliance.key"), SECRET_MODE, director),
        (answers.below_state("director", "identity", "key.pem"), SECRET_MODE, director),
        (answers.below_state("ca", "root.key"), SECRET_MODE, director),
        (answers.below_state("storage", "identity", "key.pem"), SECRET_MODE, storage),
        (os.path.join(operator_folder(answers), "key.pem"), SECRET_MODE, (-1, -1)),
        (os.path.join(console_folder(answers), "console.toml"), SECRET_MODE, (-1, -1)),
    ):
        # A link is the administrator's, and what it leads to as well.
        if os.path.lexists(path) and not os.path.islink(path) and _keep_secret(path, mode, owner):
            made.changed.append(f"only its owner may read {path} now")


def _keep_secret(path: str, mode: int, owner: tuple[int, int]) -> bool:
    """Correct owner and mode of a file; whether anything was done."""
    # By its descriptor: the folder may belong to a daemon, which could put another file there.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise OperatingSystemError(f"{path} is not its own file; put a copy there")
        is_given = owner[0] not in (-1, found.st_uid)
        is_open = stat.S_IMODE(found.st_mode) & ~mode != 0
        if is_open:
            os.fchmod(descriptor, mode)
        if is_given:
            os.fchown(descriptor, *owner)
    finally:
        os.close(descriptor)
    return is_given or is_open


def _is_certified(folder: str, name: str, role: str, hosts: tuple[str, ...]) -> bool:
    """Whether there is a certificate of this name and role, for these hosts, that has not ended.

    Raises ConflictError for one of another name.
    """
    if not has_identity(folder):
        return False
    try:
        identity = Identity.load(folder)
    except UsageError:  # an interrupted attempt: no one depends on it
        return False
    if (identity.name, identity.role) != (name, role):
        raise ConflictError(f"{folder} holds the certificate of {identity.peer}; move it elsewhere")
    if not os.path.exists(identity.revoked_path):
        return False
    from cryptography import x509

    found = set(host_names(x509.load_der_x509_certificate(identity.certificate_der)))
    in_time = identity.not_after.timestamp() * SECOND_NS > clock.now_ns()
    return in_time and found - {name} == set(hosts) - {name}


def _try_out(made: Appliance, texts: dict[str, str]) -> None:
    """Raise ConfigurationError unless the configuration would be right, with what is kept."""
    top = made.answers.configuration
    for component in ("storage", "director"):
        folder = os.path.join(top, f"{component}.d")
        instead: dict[str, str | None] = {
            path: text
            for path, text in texts.items()
            if path.startswith(folder + os.sep) and _is_written(made, path, text)
        }
        loaded = load_trees(folder, LoadOptions(), component, instead)
        resolve(loaded, whole=True)
        if loaded.diagnostics.has_errors:
            errors = [one.head() for one in loaded.diagnostics.sorted("error")]
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise ConfigurationError(
                f"nothing was written: with these answers {folder} would not be valid: "
                f"{errors[0]}{more}"
            )


def _is_written(made: Appliance, path: str, text: str) -> bool:
    """Whether a text goes to its path: no one else has changed the file."""
    if not os.path.lexists(path):
        return True
    found = _text(path).encode()
    return found == text.encode() or made.record.is_ours(path, found)


def _file(made: Appliance, path: str, text: str, mode: int) -> None:
    data = text.encode()
    beside = f"{path}.new"
    if os.path.lexists(path) and _text(path).encode() == data:
        if not made.record.is_newest(path, data):
            made.record.note_text(path, data)
        return
    if _is_written(made, path, text):
        made.record.note_text(path, data)
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        write_file(os.fsencode(path), data, mode)
        made.changed.append(f"wrote {path}")
        made.is_reconfigured = True
    elif made.record.is_newest(path, data):
        made.kept.append(f"{path} was edited, and stays")
    else:
        # Anyone who takes it over gives us the file back.
        made.record.note_text(path, data)
        if not os.path.lexists(beside) or _text(beside).encode() != data:
            write_file(os.fsencode(beside), data, mode)
            made.changed.append(f"wrote {beside}")
        made.kept.append(f"{path} was edited and is kept; compare it with {beside}")


def _console(made: Appliance) -> None:
    folder = console_folder(made.answers)
    os.makedirs(folder, 0o700, exist_ok=True)
    _file(made, os.path.join(folder, "console.toml"), console_text(made.answers), SECRET_MODE)


def _ids(user: str, group: str) -> tuple[int, int]:
    """User and group id; (-1, -1) where anyone who runs this is meant. Raises UsageError."""
    import grp

    if not user:
        return (-1, -1)
    if os.geteuid() != 0:
        raise UsageError("only root can set the owners of the daemons' folders: run this as root")
    try:
        return (pwd.getpwnam(user).pw_uid, grp.getgrnam(group).gr_gid if group else -1)
    except KeyError as error:
        raise UsageError(
            f"there is no user {user!r} or no group {group!r}: install the packages, or run "
            "`systemd-sysusers`"
        ) from error


def _folder(path: str, mode: int, owner: tuple[int, int]) -> bool:
    """Make a folder, or correct its owner and mode; whether anything was done."""
    is_new = not os.path.isdir(path)
    if is_new:
        os.makedirs(path, mode)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise OperatingSystemError(f"{path} is not a folder")
    wanted = tuple(
        one if one >= 0 else has
        for one, has in zip(owner, (found.st_uid, found.st_gid), strict=True)
    )
    is_given = owner[0] >= 0 and wanted != (found.st_uid, found.st_gid)
    if is_given:
        os.chown(path, *wanted, follow_symlinks=False)
    is_open = owner[0] >= 0 or is_new
    if is_open and stat.S_IMODE(found.st_mode) != mode:
        os.chmod(path, mode)
        return True
    return is_new or is_given


def _give(folder: str, owner: tuple[int, int]) -> None:
    """Give a small tree to a user; the group of what is in it is not changed."""
    if owner[0] < 0:
        return
    for place, folders, names in os.walk(folder):
        for name in ("", *folders, *names):
            path = os.path.join(place, name) if name else place
            if os.lstat(path).st_uid != owner[0]:
                os.chown(path, owner[0], -1, follow_symlinks=False)


def _files_below(folder: str) -> bool:
    return any(names for _, _, names in os.walk(folder))


def _text(path: str) -> str:
    return read_bounded(os.fsencode(path), _GREATEST_FILE_BYTES).decode("utf-8", "surrogateescape")


@contextmanager
def _locked(state: str) -> Iterator[None]:
    path = os.path.join(state, _LOCK)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConflictError("another setup of this appliance is running") from error
        yield
    finally:
        os.close(descriptor)
