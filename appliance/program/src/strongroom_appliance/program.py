"""`strongroom-appliance`: what is done with an appliance as a machine, each as a command."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Final

from strongroom.base.errors import (
    EXIT_DONE,
    ConfigurationError,
    UsageError,
    os_errors,
)
from strongroom.base.printable import printable
from strongroom.cli.terminal import Terminal
from strongroom_appliance.running import at_once, need_root, run_program
from strongroom_appliance.updates.commands import add_update_commands

EPILOG: Final = """\
examples:
  strongroom-appliance validate answers.yml
  strongroom-appliance render answers.yml --into /tmp/look     files of the network
  sudo strongroom-appliance console                            the menu
  strongroom-appliance disks
  strongroom-appliance apply answers.yml
  strongroom-appliance install --disk /dev/disk/by-id/ata-X --erase ata-X --answers answers.yml
  strongroom-appliance update https://updates.example.org/strongroom-amd64.update --restart

exit codes: 0 done; 2 the command line; 9 an update is not signed, or older; 12 a passphrase does
not open; 20 the image or update is damaged; 21 this root is given up; 30 the disk does not keep
what is written; 32 the server of an update does not answer; 40 the answer file has faults, each
named with its line; 61 a disk is used or holds something, another setup runs, or this root is being
tried; 71 a program of the system failed; 130 interrupted
"""


def main() -> int:
    """Run; the exit code."""
    return run_program(parser(), sys.argv[1:])


def parser() -> argparse.ArgumentParser:
    """The options."""
    top = argparse.ArgumentParser(
        prog="strongroom-appliance",
        description="Set an appliance up, install and update it, and show its menu.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = top.add_subparsers(required=True, metavar="COMMAND")
    showing = actions.add_parser("console", help="show the menu of the appliance")
    showing.add_argument(
        "--login", action="store_true", help="run always, with a password: on tty1 and serial lines"
    )
    showing.add_argument(
        "--install", metavar="IMAGE", help="the dialogue of the ISO, with another image"
    )
    showing.set_defaults(act=_console)
    beginning = actions.add_parser(
        "first-boot", help="set this machine up by an answer file, once: the service does it"
    )
    beginning.set_defaults(act=_first_boot)
    checking = actions.add_parser("validate", help="check an answer file; every fault is named")
    checking.add_argument("file", metavar="FILE")
    checking.add_argument("--json", action="store_true", help="one object for each fault")
    checking.set_defaults(act=_validate)
    showing = actions.add_parser("render", help="write the files of the network, to look at them")
    showing.add_argument("file", metavar="FILE")
    showing.add_argument("--into", metavar="FOLDER", required=True, help="a new folder")
    showing.set_defaults(act=_render)
    actions.add_parser("schema", help="print the JSON schema").set_defaults(act=_schema)
    actions.add_parser("example", help="print an answer file").set_defaults(act=_example)
    listing = actions.add_parser("disks", help="list disks and their contents")
    listing.add_argument("--json", action="store_true", help="one object for each disk")
    listing.set_defaults(act=_disks)
    applying = actions.add_parser("apply", help="set this machine up as in an answer file")
    applying.add_argument("file", metavar="FILE")
    applying.set_defaults(act=_apply)
    reporting = actions.add_parser("state", help="show what was done on this machine")
    reporting.add_argument("--json", action="store_true", help="as one object")
    reporting.set_defaults(act=_state)
    unlocking = actions.add_parser("unlock", help="unlock the encrypted data disk")
    unlocking.add_argument(
        "--passphrase-file", metavar="FILE", help="its first line; else it is asked for"
    )
    unlocking.set_defaults(act=_unlock)
    recovering = actions.add_parser(
        "recovery-key", help="make a recovery key of the encrypted data disk, and print it"
    )
    recovering.add_argument(
        "--passphrase-file", metavar="FILE", help="that of the disk, in the first line"
    )
    recovering.set_defaults(act=_recovery_key)
    bundling = actions.add_parser("bundle", help="write a support bundle, which has no secret")
    bundling.add_argument("file", metavar="FILE", help="a new file, such as support.tar.gz")
    bundling.set_defaults(act=_bundle)
    printing = actions.add_parser("paper", help="print the paper copy of the repository's key")
    printing.set_defaults(act=_paper)
    installing = actions.add_parser("install", help="copy the appliance to a disk")
    installing.add_argument("--disk", metavar="PATH", help="else of the answers")
    installing.add_argument(
        "--erase", metavar="NAME", help="the last part of PATH, if everything on it may be erased"
    )
    installing.add_argument("--answers", metavar="FILE", help="go with it to the disk")
    installing.add_argument("--image", metavar="FILE", help="else that of the ISO")
    installing.set_defaults(act=_install)
    alone = actions.add_parser(
        "install-unattended", help="find the answer file and install: the ISO calls it"
    )
    alone.add_argument(
        "--or-ask", action="store_true", help="do nothing if the answers name no disk: a menu asks"
    )
    alone.set_defaults(act=_install_unattended)
    add_update_commands(actions)
    return top


def _console(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.console.program import show_console

    show_console(arguments, terminal)
    return EXIT_DONE


def _first_boot(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.first_boot import first_boot

    need_root("set a machine up")
    first_boot(at_once(terminal))
    return EXIT_DONE


def _validate(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.answers.reading import examine, read_bytes

    _, faults = examine(read_bytes(arguments.file))
    for fault in faults:
        terminal.emit(
            {"type": "fault", "line": fault.line, "place": printable(fault.place),
             "what": fault.what, "remedy": fault.remedy}
        )  # fmt: skip
    if faults:
        raise ConfigurationError("\n".join(fault.text(arguments.file) for fault in faults))
    terminal.line(f"{printable(arguments.file)} is valid")
    return EXIT_DONE


def _render(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.answers.reading import read_answer_file
    from strongroom_appliance.machine import Machine
    from strongroom_appliance.steps.network import network_files

    answers = read_answer_file(arguments.file)
    if answers.network is None:
        raise UsageError(f"{printable(arguments.file)} has no part `network`")
    with os_errors(f"cannot make {printable(arguments.into)}"):
        os.makedirs(arguments.into)
    for name, text in network_files(answers.network).items():
        Machine(arguments.into).write(name, text)
        terminal.line(printable(name))
    return EXIT_DONE


def _schema(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.answers.schema import schema_text

    terminal.document(schema_text())
    return EXIT_DONE


def _example(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.answers.schema import EXAMPLE

    terminal.document(EXAMPLE)
    return EXIT_DONE


def _disks(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.disks.looking import all_disks

    need_root("look at disks")
    for disk in all_disks():
        terminal.emit(
            {"type": "disk", "name": disk.name, "path": disk.path, "size": disk.size,
             "model": disk.model, "serial": disk.serial, "holds": disk.holds, "used": disk.is_used}
        )  # fmt: skip
        terminal.line("  ".join(disk.description()))
    return EXIT_DONE


def _apply(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.answers.reading import read_answer_file
    from strongroom_appliance.applying import apply
    from strongroom_appliance.first_boot import become_ready

    need_root("set a machine up")
    answers = read_answer_file(arguments.file)
    changed = apply(answers, at_once(terminal))
    become_ready(answers)
    terminal.line(
        "done"
        if changed
        else "everything is already set up as in these answers; nothing was changed"
    )
    return EXIT_DONE


def _state(arguments: Any, terminal: Terminal) -> int:
    from msgspec import to_builtins

    from strongroom_appliance.state import State

    need_root("read the state")
    known = State().known
    terminal.emit({"type": "state", **to_builtins(known)})
    terminal.line("set up" if known.is_ready else "not set up")
    if known.trouble:
        terminal.line(f"trouble: {known.trouble}")
    for name, report in known.steps.items():
        terminal.line(f"{name:<16}{report.result:<8}{report.at}")
        for one in report.did:
            terminal.line(f"    {one}")
        if report.error:
            terminal.line(f"    {report.error}")
    return EXIT_DONE


def _unlock(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.disks.unlocking import unlock_and_start

    need_root("unlock a disk")
    unlock_and_start(_passphrase(arguments.passphrase_file, terminal), terminal.line)
    return EXIT_DONE


def _recovery_key(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.disks.tpm import new_recovery_key
    from strongroom_appliance.paper import qr_lines, recovery_lines

    need_root("make a recovery key")
    key = new_recovery_key(_passphrase(arguments.passphrase_file, terminal))
    for line in [*recovery_lines(key), *qr_lines(key)]:
        terminal.line(line)
    return EXIT_DONE


def _passphrase(file: str | None, terminal: Terminal) -> str:
    """Of the data disk: the first line of a file, or what is typed."""
    from strongroom.cli.passphrase import ask_passphrase, passphrase_from_file

    data = (
        passphrase_from_file(file, terminal)
        if file
        else ask_passphrase("passphrase of the data disk")
    )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        where = printable(file) if file else "what was typed"
        raise UsageError(
            f"the passphrase ({where}) is not UTF-8; set the terminal, or the file, to UTF-8"
        ) from error


def _bundle(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.bundle import write_bundle

    need_root("collect what is needed")
    write_bundle(arguments.file)
    terminal.line(f"{printable(arguments.file)} is written")
    return EXIT_DONE


def _paper(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.paper import paper_lines, passphrase_text, qr_lines

    need_root("read the passphrase")
    passphrase = passphrase_text()
    for line in [*paper_lines(passphrase), *qr_lines(passphrase)]:
        terminal.line(line)
    return EXIT_DONE


def _install(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.answers.reading import examine, read_bytes
    from strongroom_appliance.disks.choosing import chosen_disk
    from strongroom_appliance.installing import IMAGE, install, least_bytes

    need_root("install to a disk")
    image = arguments.image or IMAGE
    data, disk, word = None, arguments.disk, arguments.erase
    if arguments.answers:
        data = read_bytes(arguments.answers)
        answers, faults = examine(data)
        if answers is None:
            raise ConfigurationError("\n".join(one.text(arguments.answers) for one in faults))
        if answers.installation is not None and disk is None:
            least = least_bytes(image)
            disk, erasable = chosen_disk(answers.installation, least, answers.data_disk)
            word = word or erasable
    if disk is None:
        raise UsageError("which disk? Give --disk, or a part `installation` in the answers")
    install(image, disk, word, data, at_once(terminal))
    return EXIT_DONE


def _install_unattended(arguments: Any, terminal: Terminal) -> int:
    from strongroom_appliance.installing import install_unattended

    need_root("install to a disk")
    install_unattended(at_once(terminal), or_ask=arguments.or_ask)
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main())
