"""`strongroom share`: stores once what several clients offer to share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from strongroom.base.errors import EXIT_DONE
from strongroom.base.quantities import counted, size_text
from strongroom.cli.access import open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.options import number
from strongroom.cli.set_aside import end_with
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.engine.share.share import ShareReport

EPILOG = """\
examples:
  strongroom share --dry-run
  strongroom share --repo unix:/run/strongroom-storage/storage.sock
  strongroom share --from 2 --client web1 --client web2 --client web3

Clients offer world-readable files below the folders of `--share-below` and `Share Below`. What
enough of them have is copied into packs that all clients may refer to; the next prune drops it from
their own. Run it after vouch and before prune.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--from",
        dest="least_clients",
        metavar="N",
        type=number(1),
        default=3,
        help="share what at least N clients have (default 3; 1: all that is offered)",
    )
    parser.add_argument(
        "--client",
        dest="clients",
        metavar="NAME",
        action="append",
        help="count only this client; may be repeated (else all count)",
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="only count, copy nothing")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Share and report."""
    from strongroom.engine.share.share import ShareOptions, share

    with open_repository(arguments, terminal, "read") as repository:
        clients = None
        if arguments.clients is not None:
            key = repository.restore_key
            clients = frozenset(key.client_id(name) for name in arguments.clients)
        options = ShareOptions(arguments.least_clients, clients, arguments.dry_run)
        with show_progress(terminal, "share") as progress:
            report = share(repository, options, progress)
        _report(report, terminal)
        end_with(report.set_aside, repository, terminal)
    return EXIT_DONE


def _report(report: ShareReport, terminal: Terminal) -> None:
    terminal.emit(report.summary())
    if report.dry_run:
        terminal.line(
            f"{counted(report.shared_chunks, 'chunk')} would be shared, of {report.offered_chunks} "
            "offered"
        )
        return
    terminal.line(
        f"shared {counted(report.shared_chunks, 'chunk')}, {size_text(report.shared_bytes)}, in "
        f"{counted(report.packs, 'pack')} of {size_text(report.stored_bytes)}; "
        f"{report.offered_chunks} offered"
    )
