"""`strongroom mount`: all snapshots as a read-only file system."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from strongroom.base.errors import (
    EXIT_DONE,
    OperatingSystemError,
    StrongroomError,
    UsageError,
    os_errors,
)
from strongroom.base.printable import printable
from strongroom.cli.access import add_past_option, open_repository
from strongroom.cli.options import number
from strongroom.cli.set_aside import set_aside_lines
from strongroom.cli.snapshot_choice import add_snapshot_filters, snapshot_filter
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside

EPILOG = """\
examples:
  strongroom mount /mnt/snapshots
  strongroom mount /mnt/snapshots --foreground --host web1
  cp -a /mnt/snapshots/hosts/web1/latest/home/ann /tmp/
  umount /mnt/snapshots          (as another user than root: fusermount3 -u /mnt/snapshots)

Shows ids/ID, hosts/HOST/TIME, tags/TAG/TIME, and links `latest` beside them. New snapshots appear
automatically. SIGTERM, or Ctrl-C with --foreground, unmounts.
"""

_READY = b"ready"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the mount point and its options."""
    parser.add_argument("mount_point", metavar="FOLDER", help="an empty folder to mount on")
    parser.add_argument(
        "--foreground", action="store_true", help="stay in the foreground until unmounted"
    )
    parser.add_argument(
        "--allow-other",
        action="store_true",
        help="admit other users, as owners and modes of the files allow (not root: needs "
        "user_allow_other in /etc/fuse.conf); ACLs do not restrict them",
    )
    parser.add_argument(
        "--cache-size",
        metavar="MIB",
        type=number(1),
        default=64,
        help="memory for decoded blocks in MiB (default: 64)",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=number(1, 256),
        default=1,
        help="requests answered at the same time (default: 1, fastest unless the store is slow)",
    )
    add_snapshot_filters(parser)
    add_past_option(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Mount; with --foreground until it is unmounted."""
    mount_point = _vacant_folder(arguments.mount_point)
    _require_fuse()
    with open_repository(arguments, terminal) as repository:
        if arguments.foreground:
            terminal.emit({"type": "mounting", "path": mount_point})
            terminal.line(f"mounting at {printable(mount_point)}; Ctrl-C unmounts")
            terminal.flush()
            _serve(repository, mount_point, arguments, terminal.warn, lambda: None)
            return EXIT_DONE
        return _serve_in_background(repository, mount_point, arguments, terminal)


def _vacant_folder(path: str) -> bytes:
    """The mount point, absolute. It must be empty, since its content would be hidden.

    Raises UsageError.
    """
    mount_point = os.path.realpath(os.fsencode(path))
    with os_errors(f"cannot mount at {printable(mount_point)}", then="; choose an empty folder"):
        names = os.listdir(mount_point)
    if names:
        raise UsageError(f"{printable(mount_point)} is not empty; choose an empty folder")
    return mount_point


def _require_fuse() -> None:
    """Check before asking for a passphrase."""
    try:
        import strongroom.engine.mount.fuse  # noqa: F401
    except OSError as error:
        raise OperatingSystemError(
            f"mounting needs libfuse ({error}); run `apt-get install fuse3` as root"
        ) from error


def _serve(
    repository: Repository,
    mount_point: bytes,
    arguments: argparse.Namespace,
    report: Callable[[str], None],
    ready: Callable[[], None],
) -> None:
    from strongroom.engine.mount.files import MountedFiles
    from strongroom.engine.mount.fuse import serve
    from strongroom.engine.mount.repository import MountedRepository

    def name_unread(set_aside: SetAside) -> None:
        for line in set_aside_lines(set_aside, repository):
            report(line)

    cache_bytes = arguments.cache_size << 20
    mounted = MountedRepository(repository, snapshot_filter(arguments), cache_bytes, name_unread)
    try:
        # Before it leaves the terminal, so that what cannot be read is named there.
        mounted.names()
        serve(
            MountedFiles(mounted, report),
            mount_point,
            name=repository.store.location,
            allow_other=arguments.allow_other,
            threads=arguments.threads,
            ready=ready,
        )
    finally:
        mounted.close()


def _serve_in_background(
    repository: Repository, mount_point: bytes, arguments: argparse.Namespace, terminal: Terminal
) -> int:
    """Mount in its own process; return once it is mounted, or failed to."""
    terminal.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        tell = terminal.warn

        def report(text: str) -> None:
            tell(text)

        def ready() -> None:
            nonlocal tell
            tell = _report_to_system_log
            _detach()
            os.write(writing, _READY)
            os.close(writing)

        _serve(repository, mount_point, arguments, report, ready)
        return EXIT_DONE
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    if answer == _READY:
        terminal.emit({"type": "mounted", "path": mount_point, "process_id": child})
        terminal.line(f"mounted at {printable(mount_point)} (process {child})")
        return EXIT_DONE
    # The child has reported the error.
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) or StrongroomError.exit_code


def _detach() -> None:
    """Detach from terminal, standard streams and working folder."""
    os.setsid()
    os.chdir("/")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def _report_to_system_log(text: str) -> None:
    import syslog

    syslog.syslog(syslog.LOG_ERR, f"strongroom mount: {text}")
