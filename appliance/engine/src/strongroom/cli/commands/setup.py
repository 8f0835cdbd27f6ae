"""`strongroom setup`: make an appliance of this machine, from an answer file or a few questions."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.base.printable import printable
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.cli.setup.answer_file import Answers
    from strongroom.cli.setup.steps import Appliance

EPILOG = """\
examples:
  strongroom setup appliance --show-answers > answers.toml
  strongroom setup appliance --answers answers.toml
  strongroom setup appliance                              asks, or uses the answers of last time

It makes the certificate authority, the repository with its keys, certificates and configuration of
storage daemon and director, and starts both. A second run changes nothing; with other answers it
changes only what they concern. Keys and repositories are never replaced. An edited file is kept,
and the new text is written beside it as FILE.new.
"""

UNITS = ("strongroom-storage.service", "strongroom-director.service")
_ANSWERS = "/etc/strongroom/appliance.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    making = actions.add_parser("appliance", help="make the appliance: director and storage daemon")
    making.add_argument("--answers", metavar="FILE", help=f"answers in TOML (else {_ANSWERS})")
    making.add_argument(
        "--show-answers", action="store_true", help="print an answer file with comments, and exit"
    )
    making.add_argument("--no-start", action="store_true", help="do not touch services")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Make the appliance, and say what is to be done next."""
    from strongroom.cli.services import has_systemd, start_services
    from strongroom.cli.setup.answer_file import commented_example
    from strongroom.cli.setup.steps import make_appliance

    if arguments.show_answers:
        terminal.document(commented_example())
        return EXIT_DONE
    # Folders of the configuration are read by daemons; what is secret gets its own mode.
    os.umask(0o022)
    answers = _answers(arguments, terminal)
    made = make_appliance(answers)
    starts = has_systemd() and not arguments.no_start
    if starts:
        made.changed += start_services(UNITS, reload=made.is_reconfigured)
    for kept in made.kept:
        terminal.warn(kept)
    _report(made, terminal, starts=starts)
    return EXIT_DONE


def _answers(arguments: argparse.Namespace, terminal: Terminal) -> Answers:
    from strongroom.cli.setup.answer_file import read_answers, settled, toml_text

    if arguments.answers:
        return read_answers(arguments.answers)
    if os.path.exists(_ANSWERS):
        return read_answers(_ANSWERS)
    if not terminal.interactive:
        raise UsageError(
            "no terminal to ask at: add --answers FILE (--show-answers prints an example)"
        )
    given = _ask(terminal)
    answers = settled(given, "your answers")
    os.makedirs(os.path.dirname(_ANSWERS), 0o755, exist_ok=True)
    with open(_ANSWERS, "w", encoding="utf-8") as file:
        file.write(toml_text(given))
    terminal.line(f"your answers are in {_ANSWERS}; edit it and run this command again")
    return answers


def _ask(terminal: Terminal) -> dict[str, Any]:
    from strongroom.cli.setup.answer_file import QUESTIONS

    given: dict[str, Any] = {}
    for question in QUESTIONS:
        if not question.is_asked:
            continue
        usual = f" [{question.default}]" if question.default is not None else ""
        answer = ""
        while not answer:
            try:
                answer = input(f"{question.text}{usual} ").strip() or question.default or ""
            except EOFError as error:
                raise UsageError(f"`{question.name}` was not answered") from error
            if not answer:
                terminal.warn(f"this must be answered: {question.expected}")
            elif not question.check(answer):
                terminal.warn(f"{printable(answer)!r} will not do; write {question.expected}")
                answer = ""
        given[question.name] = answer
    return given


def _report(made: Appliance, terminal: Terminal, *, starts: bool) -> None:
    answers = made.answers
    terminal.emit(
        {
            "type": "appliance",
            "address": answers.address,
            "director": answers.director_url,
            "fingerprint": made.fingerprint,
            "passphrase_file": made.passphrase_file,
            "changed": made.changed,
            "kept": made.kept,
        }
    )
    for one in made.changed:
        terminal.line(printable(one))
    if not made.changed:
        terminal.line("everything is already set up as in these answers; nothing was changed")
        return
    group = answers.groups[0] if answers.groups else "GROUP"
    terminal.line()
    terminal.line(f"address of the director:      {answers.director_url}")
    terminal.line(f"fingerprint of the authority: {made.fingerprint}")
    terminal.line(f"passphrase of the restore key: in {printable(made.passphrase_file)}")
    terminal.line(
        "Keep a copy of the passphrase outside of this machine, also on paper: without it nothing"
    )
    terminal.line("can be restored once this machine is lost.")
    terminal.line()
    if not starts:
        terminal.line("next: start the services strongroom-storage and strongroom-director, then")
    terminal.line("next, to let machines join:")
    terminal.line(f"  strongroom ca token --group {group} --names '*' --uses 10 --out join.token")
