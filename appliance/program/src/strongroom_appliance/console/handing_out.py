"""Secrets that the menu shows: for paper, machines and browsers."""

from __future__ import annotations

import tomllib
from dataclasses import replace

from strongroom.base.errors import UsageError
from strongroom_appliance.console.fields import Field
from strongroom_appliance.console.forms import checked, kept_answers
from strongroom_appliance.console.screen import Screen
from strongroom_appliance.console.status import authority_fingerprint
from strongroom_appliance.machine import SETUP_ANSWERS
from strongroom_appliance.next_steps import director_address
from strongroom_appliance.paper import paper_lines, passphrase_text
from strongroom_appliance.steps.repository import make_token, make_web_token


def paper_copy(screen: Screen) -> None:
    """Show the passphrase, to be copied to paper."""
    passphrase = passphrase_text()
    screen.secret("Repository key: paper copy", paper_lines(passphrase), passphrase)


def enrolment_token(screen: Screen) -> None:
    """Make a token with which machines join."""
    title = "Enrolment token"
    groups = tuple((kept_answers().appliance or {}).get("groups", ["servers"])) or ("servers",)
    fields = [
        Field("group", "Group", groups[0], groups),
        Field("names", "Names", "*", hint="Such as web*"),
        Field("uses", "For how many machines", "1"),
        Field("lifetime", "Good for", "1 day"),
    ]
    where = _director()
    faults: list[str] = []
    while True:
        filled = screen.form(title, fields, faults)
        if filled is None:
            return
        fields = [replace(one, value=filled[one.name]) for one in fields]
        part = {"address": "localhost", "groups": list(groups)}
        answers, faults = checked({"agents": {"tokens": [filled]}, "appliance": part})
        if answers is not None:
            break
    assert answers.agents is not None
    text = make_token(answers.agents.tokens[0], "-").strip()
    lines = ["Machines join with this token, on one line:", "", *_pieces(text), ""]
    lines += ["Write it to a file there, and run", ""]
    screen.text(title, [*lines, *_pieces(f"strongroom agent join {where} --token-file FILE")])


def web_token(screen: Screen) -> None:
    """Make a token of the operator, to log in to the web page."""
    title = "Web page"
    where = _director()
    hint = "Such as 12h or 30d. Anyone who has the token may do everything"
    filled = screen.form(title, [Field("lifetime", "Good for", "30d", hint=hint)])
    if filled is None:
        return
    text = make_web_token(_operator(), filled["lifetime"])
    lines = [
        f"Open {where}/ and log in with this token, on one line:",
        "",
        *_pieces(text),
        "",
        "The browser does not know the authority yet; its fingerprint (SHA-256) is",
        authority_fingerprint(),
        "",
    ]
    screen.secret(title, lines, text)


def _director() -> str:
    where = director_address()
    if not where:
        raise UsageError("there is no director yet; choose `Set up backups` first")
    return where


def _operator() -> str:
    """Who has all rights, as setup wrote it down."""
    with open(SETUP_ANSWERS, "rb") as file:
        return str(tomllib.load(file).get("operator", "admin"))


def _pieces(text: str) -> list[str]:
    return [text[at : at + 76] for at in range(0, len(text), 76)]
