"""Director, storage daemon and repository, by `strongroom setup appliance`; tokens to join."""

from __future__ import annotations

import itertools
import json
import os
import pwd
from collections.abc import Sequence
from typing import Any, Final

from strongroom.base.errors import ConflictError, OperatingSystemError, WrongKeyError
from strongroom.base.interpreter import SAFE_FOLDER, module_command
from strongroom.base.printable import printable
from strongroom.cli.setup.answer_file import Answers, settled, toml_text
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore
from strongroom.net.identities.private_files import give_tree, read_bounded, write_file
from strongroom_appliance.answers.model import AnswerFile, Token
from strongroom_appliance.machine import MOUNT_POINT, SETUP_ANSWERS, STATE_FOLDER, run_for_code
from strongroom_appliance.steps.context import Context

TOKENS: Final = f"{STATE_FOLDER}/tokens"
_ERROR: Final = "strongroom: error ["


def setup_answers(answers: AnswerFile) -> dict[str, Any]:
    """What `strongroom setup appliance` gets."""
    given = dict(answers.appliance or {})
    given.setdefault("address", answers.hostname)
    if answers.data_disk is not None:
        given.setdefault("repository", f"{MOUNT_POINT}/repository")
    return given


def _settled(context: Context) -> Answers:
    return settled(setup_answers(context.answers), "the answers")


def import_key(context: Context) -> None:
    """Put the passphrase of a repository that is there where the director reads it."""
    key = context.answers.repository_key
    assert key is not None
    if key.mode != "import":
        return
    answers = _settled(context)
    path = answers.below_state("director", "passphrase")
    if key.passphrase is None:
        raise WrongKeyError("repository_key: the passphrase is missing")
    place = answers.repository
    if not os.path.exists(os.path.join(place, "config")):
        raise ConflictError(
            f"there is no repository in {place}, so no key can be imported; is it on the data disk?"
        )
    passphrase = key.passphrase.encode()
    if os.path.exists(path):
        if read_bounded(os.fsencode(path), 4096).split(b"\n", 1)[0] == passphrase:
            return
        raise ConflictError(f"{path} has another passphrase already; it is not replaced")
    Repository.open(LocalStore(place), passphrase).close()
    # The users of the machine that made it may have had other numbers.
    if answers.storage_user and os.stat(place).st_uid != pwd.getpwnam(answers.storage_user).pw_uid:
        give_tree(os.fsencode(place), answers.storage_user)
    os.makedirs(os.path.dirname(path), 0o750, exist_ok=True)
    write_file(os.fsencode(path), passphrase + b"\n", 0o400)
    if answers.director_user:
        os.chown(path, pwd.getpwnam(answers.director_user).pw_uid, -1)
    context.did("imported the passphrase of the repository")


def set_up(context: Context) -> None:
    """Make the appliance of its answers, and start it."""
    given = setup_answers(context.answers)
    if context.answers.data_disk is not None and not os.path.ismount(MOUNT_POINT):
        raise ConflictError(f"{MOUNT_POINT} is not mounted; the repository would land elsewhere")
    head = "# Written by Strongroom from its answers.\n"
    context.machine.write(SETUP_ANSWERS, head + toml_text(given))
    output = _strongroom("setup", "appliance", "--answers", SETUP_ANSWERS, "--json")
    for line in output.splitlines():
        if line.startswith('{"type":"appliance"') or '"type": "appliance"' in line:
            for one in json.loads(line)["changed"]:
                context.did(printable(one))


def make_tokens(context: Context) -> None:
    """Make each enrolment token once."""
    agents = context.answers.agents
    assert agents is not None
    os.makedirs(TOKENS, 0o700, exist_ok=True)
    numbers: dict[str, int] = {}
    for token in agents.tokens:
        numbers[token.group] = numbers.get(token.group, 0) + 1
        name = f"{token.group}-{numbers[token.group]}"
        if name in context.state.known.tokens:
            continue
        path = os.path.join(TOKENS, name)
        if os.path.lexists(path):
            os.unlink(path)  # of an interrupted attempt
        make_token(token, path)
        context.state.known.tokens.append(name)
        context.state.write()
        context.did(f"made an enrolment token in {path}")


def make_token(token: Token, path: str) -> str:
    """Make an enrolment token in the new file `path`; with `-` it is printed."""
    # It runs in another folder.
    path = path if path == "-" else os.path.abspath(path)
    words = ["ca", "token", "--group", token.group, "--names", token.names]
    return _strongroom(
        *words, "--uses", str(token.uses), "--lifetime", token.lifetime, "--out", path
    )


def _strongroom(*words: str) -> str:
    code, given = run_for_code(module_command("strongroom", *words), folder=SAFE_FOLDER)
    if code:
        # Warnings come before it, and what is for programs behind it.
        lines = [one for one in given.splitlines() if one.startswith(_ERROR)]
        text = printable(lines[0].partition("]: ")[2] if lines else f"exit code {code}")
        raise OperatingSystemError(f"`strongroom {_named(words)}` failed: {text}")
    return given


def _named(words: Sequence[str]) -> str:
    """The command without its options."""
    return " ".join(itertools.takewhile(lambda word: not word.startswith("-"), words))


def make_web_token(operator: str, lifetime: str) -> str:
    """Make a token of the API for the operator; its text."""
    given = _strongroom("token", "create", operator, "--lifetime", lifetime, "--json")
    text: str = json.loads(given.splitlines()[-1])["text"]
    return text
