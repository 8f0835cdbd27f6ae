"""The commands of `strongroom-appliance` for updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.base.printable import printable
from strongroom.cli.terminal import Terminal
from strongroom_appliance.running import at_once, need_root

if TYPE_CHECKING:
    import argparse


def add_update_commands(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add them."""
    writing = actions.add_parser(
        "update", help="write an update beside the running system; the next start tries it"
    )
    writing.add_argument(
        "place", nargs="?", metavar="FILE|URL", help="a signed update file of `make image`"
    )
    writing.add_argument(
        "--scheduled", action="store_true", help="from where the answers say: the timer does it"
    )
    writing.add_argument("--older", action="store_true", help="also one older than what runs")
    writing.add_argument("--restart", action="store_true", help="restart at once, to try it")
    writing.set_defaults(act=_update)
    showing = actions.add_parser("slots", help="show the two roots, and what became of an update")
    showing.add_argument("--json", action="store_true", help="as one object")
    showing.set_defaults(act=_slots)
    confirming = actions.add_parser(
        "confirm", help="accept the running root or give it up: a service calls it at each start"
    )
    confirming.add_argument(
        "--within", metavar="SECONDS", type=int, help="how long it may take to be healthy (900)"
    )
    confirming.set_defaults(act=_confirm)


def _update(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.machine import run
    from strongroom_appliance.updates.schedule import update_as_scheduled
    from strongroom_appliance.updates.writing import write_update

    need_root("update a machine")
    if arguments.scheduled == (arguments.place is not None):
        raise UsageError("which update? Give FILE or URL, or else --scheduled")
    if arguments.scheduled:
        update_as_scheduled(at_once(terminal))
        return EXIT_DONE
    written = write_update(arguments.place, is_older_wanted=arguments.older, say=at_once(terminal))
    image = printable(written.manifest.image)
    if not written.is_new:
        terminal.line(f"{image} runs already; nothing was changed")
    elif arguments.restart:
        terminal.line("restarts")
        terminal.flush()
        run(["systemctl", "--no-block", "reboot"])
    else:
        terminal.line(f"{image} is in root {written.slot}; restart to try it")
    return EXIT_DONE


def _slots(arguments: Any, terminal: Terminal) -> int:
    from msgspec import to_builtins

    from strongroom_appliance.updates.record import read_record
    from strongroom_appliance.updates.slots import running_here, states

    need_root("look at the roots")
    now, found, record = running_here(), states(), read_record()
    terminal.emit(
        {"type": "slots", "running": now.slot, "image": now.image, "trial": now.is_trial,
         "states": {slot: found.get(f"{slot}_state", "") for slot in ("a", "b")},
         "order": found.get("order", ""), "update": to_builtins(record)}
    )  # fmt: skip
    for slot in ("a", "b"):
        state = found.get(f"{slot}_state", "")
        words = {"good": "good", "0": "not started any more"}.get(state, f"{state} tries left")
        runs = f", runs: {now.image}" if slot == now.slot else ""
        trial = ", being tried" if slot == now.slot and now.is_trial else ""
        terminal.line(f"root {slot}: {printable(words)}{printable(runs)}{trial}")
    if record is not None:
        why = f": {'; '.join(record.reasons)}" if record.reasons else ""
        terminal.line(
            f"last update: {printable(record.image)} in root {record.slot}, {record.result}"
            f"{printable(why)} ({printable(record.at)})"
        )
    return EXIT_DONE


def _confirm(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.updates.confirming import PATIENCE_SECONDS, confirm

    need_root("judge a root")
    patience = PATIENCE_SECONDS if arguments.within is None else arguments.within
    confirm(patience, at_once(terminal))
    return EXIT_DONE
