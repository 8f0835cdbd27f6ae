"""Nothing that we show sends people to a name on a public site that is not ours.

Anyone who registers such a name gets what our readers install or visit. Names for examples are
those that no one can have (RFC 2606). Other sites are listed here: standards and well-known
sources.
"""

import re

import pytest

from kit.project import DOCUMENTS, ENGINE, PROGRAM, UNITS

PROJECT = DOCUMENTS.parent
WELL_KNOWN_SITES = {
    "json-schema.org",
    "keepachangelog.com",
    "openssh.com",
    "semver.org",
    "www.w3.org",
}
SHOWN = sorted(
    {
        PROJECT / "README.md",
        PROJECT / "CHANGELOG.md",
        PROJECT / "Makefile",
        ENGINE / "pyproject.toml",
        PROGRAM / "pyproject.toml",
        *DOCUMENTS.rglob("*.md"),
        *(ENGINE / "src").rglob("*.py"),
        *(ENGINE / "src").rglob("*.json"),
        *(PROGRAM / "src").rglob("*.py"),
        *ENGINE.glob("*.sh"),
        *(path for path in UNITS.rglob("*") if path.is_file()),
    }
)
# A host with a dot in it; placeholders such as HOST, {shown} and ADDRESS have none.
URL = re.compile(r"(?:https?|git|ssh)://(?:[^/@\s]*@)?([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)")
MAIL = re.compile(r"[\w.+-]+@([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)")
ACCOUNT = re.compile(
    r"\b(?:github|gitlab|codeberg|pypi|ghcr|docker|hub\.docker|quay|npmjs)\.(?:com|org|io)\b",
    re.IGNORECASE,
)
INSTALL = re.compile(
    r"\b(?:pipx?|uvx?|npm|cargo|snap|flatpak|docker)[ \w-]* (?:install|add|pull|run) +([^`\n]*)"
)


def is_for_examples(host: str) -> bool:
    """No one can register it: RFC 2606, loopback and addresses."""
    name = host.lower().rstrip(".")
    return (
        re.fullmatch(r"(.*\.)?example(\.(com|net|org))?", name) is not None
        or name.endswith((".test", ".invalid", ".localhost"))
        or re.fullmatch(r"[\d.]+", name) is not None
    )


def faults_of(text: str) -> list[str]:
    """Names in `text` that are not ours, not for examples and not well-known."""
    found = [
        host
        for pattern in (URL, MAIL)
        for host in pattern.findall(text)
        if not is_for_examples(host) and host not in WELL_KNOWN_SITES
    ]
    found += ACCOUNT.findall(text)
    for words in INSTALL.findall(text):
        found += [word for word in re.findall(r"[^\s'\"]+", words) if word.startswith("strongroom")]
    return found


def test_no_name_is_shown_that_anybody_could_take():
    found = {str(path.relative_to(PROJECT)): faults_of(path.read_text("utf-8")) for path in SHOWN}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'strongroom[mount]'",
        "pipx install strongroom",
        "git clone https://github.com/somebody/strongroom",
        "see https://strongroom.dev/guide",
        "mail security@strongroom.dev",
        "docker run strongroom/agent",
    ],
)
def test_such_names_are_found(text):
    assert faults_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install './appliance/engine[director]'",
        "strongroom status --director https://vault.example.org:9101",
        "https://127.0.0.1:9101 and https://HOST:PORT",
        "mail admin@example.com",
    ],
)
def test_names_that_nobody_can_take_are_not(text):
    assert faults_of(text) == []
