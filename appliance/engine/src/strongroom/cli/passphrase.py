"""Where a passphrase comes from: a file, a command, the environment, or a person at a terminal.

A passphrase is bytes: the first line of the file or output, without its line end.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess

from strongroom.base.errors import UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.base.text_marks import has_typographic_quotes, plain_text
from strongroom.cli.settings import Settings
from strongroom.cli.terminal import Terminal

GREATEST_SIZE_BYTES = 64 << 10
WEAK_BELOW_CHARACTERS = 12
WEAK_BELOW_KINDS = 3
USUAL_OPTIONS = (
    "--password-file, --password-command, $STRONGROOM_PASSWORD_FILE, "
    "$STRONGROOM_PASSWORD_COMMAND or $STRONGROOM_PASSWORD"
)


def passphrase_from_file(path: str, terminal: Terminal) -> bytes:
    """Give the first line of file `path`; warns if others may read it. Raises UsageError."""
    with os_errors(f"cannot read the passphrase: {printable(path)}"), open(path, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        # The mode of a device or pipe says nothing of the secret, and must not be changed.
        if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
            advice = printable(f"chmod 600 {shlex.quote(path)}")
            terminal.warn(f"others may read {printable(path)}; run `{advice}`")
        text = file.read(GREATEST_SIZE_BYTES)
    return _first_line(text, f"file {printable(path)}")


def passphrase_from_command(command: str) -> bytes:
    """Give the first line that `command` prints; it runs without a shell. Raises UsageError."""
    try:
        done = subprocess.run(
            shlex.split(command),
            # Standard input may be the very stream that is being backed up.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot run the passphrase command `{command}`: {reason}") from error
    if done.returncode:
        raise UsageError(f"the passphrase command `{command}` failed (status {done.returncode})")
    return _first_line(done.stdout, f"output of `{command}`")


def given_passphrase(settings: Settings, terminal: Terminal) -> bytes | None:
    """Give the passphrase that the options or the environment state; None if they state none."""
    if settings.password_file and settings.password_command:
        raise UsageError("--password-file and --password-command exclude each other")
    found = None
    if settings.password_file:
        found = passphrase_from_file(settings.password_file, terminal)
    elif settings.password_command:
        found = passphrase_from_command(settings.password_command)
    if found is not None:
        if has_typographic_quotes(found):
            terminal.warn("the passphrase has typographic quotes around it, which are part of it")
        return found
    if settings.password is not None:
        return _first_line(os.fsencode(settings.password), "variable STRONGROOM_PASSWORD")
    return None


def ask_passphrase(question: str, options: str = USUAL_OPTIONS) -> bytes:
    """Ask at the terminal; raises UsageError, which names `options`, when there is none."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError as error:
        raise UsageError(
            f"no passphrase was given and there is no terminal to ask at; use {options}"
        ) from error
    from getpass import getpass

    try:
        answer = os.fsencode(getpass(f"{printable(question)}: "))
    except EOFError as error:
        raise UsageError("no passphrase was typed") from error
    return _first_line(answer, "answer")


def choose_passphrase(question: str, options: str = USUAL_OPTIONS) -> bytes:
    """Ask for a new passphrase twice, until both answers are the same; raises UsageError."""
    asked = question
    for _ in range(3):
        first = ask_passphrase(asked, options)
        if ask_passphrase("repeat the passphrase") == first:
            return first
        asked = f"the two answers differ; {question}"
    raise UsageError("the two answers differed three times")


def warn_if_weak(passphrase: bytes, terminal: Terminal) -> None:
    """Warn of a new passphrase that is short and of one or two kinds of characters."""
    text = passphrase.decode("utf-8", "replace")
    kinds = {
        "letter" if one.islower() else "capital" if one.isupper() else "digit" if one.isdigit()
        else "other"
        for one in text
    }  # fmt: skip
    if len(text) < WEAK_BELOW_CHARACTERS and len(kinds) < WEAK_BELOW_KINDS:
        terminal.warn(
            f"the passphrase is weak: it has fewer than {WEAK_BELOW_CHARACTERS} characters, and "
            "few kinds of them. Anyone who copies the repository can try passphrases without "
            "limit; use several random words (`strongroom key change` sets another passphrase)"
        )


def _first_line(text: bytes, origin: str) -> bytes:
    passphrase = plain_text(text, f"the {origin}").split(b"\n", 1)[0].removesuffix(b"\r")
    if not passphrase:
        raise UsageError(f"the {origin} holds no passphrase: its first line is empty")
    return passphrase
