"""Whatever a name or a text of others holds, no command and no daemon lets it drive a terminal.

Every command that the parser knows runs on a repository, a configuration and a director in which
every name and every text is hostile; a new command fails here until it does too.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import logging
import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.agent_site import AgentSite
from kit.command import PASSPHRASE, Command
from kit.connections import House
from kit.descriptors import is_readable
from kit.director_server import RunningDirector
from kit.hostile_director import HostileDirector
from kit.json_output import objects_of
from kit.passing_store import PassingStore
from kit.prepared_commands import run_command
from kit.simulated_agent import SimulatedAgent
from kit.storage_daemon import Daemon
from kit.tiny_backup import new_repository
from strongroom.base.errors import StoreError
from strongroom.cli.main import COMMANDS, command_parser
from strongroom.engine.repository.keys.files import import_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.servable import ServableStore
from strongroom.net.control.messages import Script, StorageTarget
from strongroom.service.log_lines import PeopleLines

Leaf = tuple[str, ...]

# A title, a cleared screen, C1 controls, the other direction, deletions, a forged line of ours.
FORGED = "strongroom: error [forged]"
EVIL = f"\x1b]2;PWNED\x07\x1b[2J\x9b31m\u202e\u2028\x7f\x85\x08\r\n{FORGED}: pay\tme"
EVIL_BYTES = EVIL.encode() + b"\xff\xfe"
# As part of a path of ours, which is not text of a file name of others.
EVIL_NAME = os.fsdecode(EVIL_BYTES)

# What is not text: the catalog's export is for `catalog import`, a program.
EXEMPT = {("catalog", "export")}
# Nothing of others is in what these show; the browser has its own test, on a terminal.
HARMLESS = ("self-test", "version", "cache", "completion", "serve", "browse", "schedule remove")
PATIENCE_SECONDS = 60


def leaves_of(parser: argparse.ArgumentParser, head: Leaf) -> Iterator[Leaf]:
    """A command, or each of its actions."""
    # argparse has no public access to either.
    positional = [
        one
        for one in parser._actions  # noqa: SLF001
        if not one.option_strings and one.choices
    ]
    for action in positional:
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, below in action.choices.items():
                yield from leaves_of(below, (*head, name))
            if not action.required:
                yield head
        else:
            yield from ((*head, str(choice)) for choice in action.choices or ())
            if action.nargs == "?":
                yield head
        return
    yield head


LEAVES = [leaf for name in COMMANDS for leaf in leaves_of(command_parser(name), (name,))]


def is_harmless(leaf: Leaf, form: str) -> bool:
    """Whether the command shows nothing of others; dump only says that it writes no JSON."""
    is_refused = (leaf, form) == (("dump",), "--json")
    return is_refused or leaf[0] in HARMLESS or " ".join(leaf) in HARMLESS


def assert_harmless(data: bytes, what: object) -> None:
    """Only characters that print, line ends and tabs; and no line that somebody else forged."""
    text = data.decode("utf-8")
    rest = text.replace("\n", "").replace("\t", "")
    assert rest.isprintable(), (what, [one for one in rest if not one.isprintable()], text)
    assert not re.search(rf"^{re.escape(FORGED)}", text, re.MULTILINE), (what, text)


class FailingDisk:
    """Opens stores for a storage daemon; `has_failed`: then each of their operations fails."""

    def __init__(self) -> None:
        self.has_failed = False

    def open(self, place: bytes) -> ServableStore:
        return PassingStore(LocalStore(place), self._operate)  # type: ignore[return-value]

    def _operate(self, number: int) -> None:
        if self.has_failed:
            raise StoreError(f"the disk says {EVIL}")


class Site:
    """Everything that commands are run on; `lines` are the command lines for each of them."""

    def __init__(self, folder: Path, director: HostileDirector, operator: str) -> None:
        self.folder = folder
        self.director = director
        self.command = Command(folder)
        self.command.make_repository()
        self._make_tree()
        self._make_configuration()
        for _ in range(2):
            self._run("backup", str(self.tree), *self._labels())
            (self.tree / "more").write_text("more")
        self.out = str(folder / EVIL_NAME)
        self._make_catalog_backup()
        (folder / "daemon").mkdir()
        disk = FailingDisk()
        self.daemon = Daemon(folder / "daemon", open_store=disk.open)
        disk.has_failed = True
        self._make_leased()
        lines = self._repository_lines()
        for some in lines.values():
            some.append([*some[0], "--repo", f"unix:{self.daemon.socket_path}"])
        self.lines = {
            **lines,
            **self._configuration_lines(),
            **self._director_lines(operator),
            **self._other_lines(),
        }

    def _make_catalog_backup(self) -> None:
        """A repository in which a client with a hostile name stored what a director stores."""
        self.catalogs = str(self.folder / "catalogs")
        new_repository(LocalStore(self.catalogs), PASSPHRASE.encode()).close()
        words = ["backup", str(self.tree), "--host", EVIL, "--job", "catalog"]
        self.command.run(*words, "--repo", self.catalogs, STRONGROOM_PASSWORD=PASSPHRASE)

    def _make_leased(self) -> None:
        """A repository that somebody is writing to, so that a prune has to wait."""
        (self.folder / "leased-before").mkdir()
        place = self.folder / "leased-before"
        shutil.copytree(self.command.repository, place, dirs_exist_ok=True)
        repository = Repository.open(
            LocalStore(str(place)), import_key(self.command.restore_key.read_text())
        )
        self.lease = repository.lease(EVIL, 1, EVIL)
        self.lease.__enter__()
        for snapshot in repository.snapshots()[:1]:
            (place / "snapshots" / snapshot.id).unlink()
        for pack in (place / "packs").glob("*/*"):
            os.utime(pack, (1e9, 1e9))  # young ones are spared

    def close(self) -> None:
        """Stop what runs."""
        self.lease.__exit__(None, None, None)
        self.daemon.stop()

    def _labels(self) -> list[str]:
        names = ("--host", "--job", "--fileset", "--tag")
        return [word for name in names for word in (name, EVIL.replace(",", ""))]

    def _make_tree(self) -> None:
        self.tree = self.folder / "tree"
        below = self.tree / EVIL_NAME
        below.mkdir(parents=True)
        (below / EVIL_NAME).write_bytes(b"content")
        (below / EVIL_NAME).chmod(0o4755)
        (self.tree / "link").symlink_to(EVIL_NAME)
        os.setxattr(below / EVIL_NAME, b"user." + EVIL_BYTES, EVIL_BYTES)
        os.mknod(below / ("fifo" + EVIL_NAME), stat.S_IFIFO | 0o600)

    def _make_configuration(self) -> None:
        self.bad = self.folder / ("bad" + EVIL_NAME)
        self.good = self.folder / "good.conf"
        self.good.write_text("Client { Name = c }\nDirector { Name = d; Password = x }\n")
        text = f'Client {{ Name = "{EVIL}"; {EVIL} = 7 }}\nJob {{ Name = "{EVIL}" {EVIL} }}\n'
        for component in ("agent", "director", "storage"):
            place = self.bad / f"{component}.d" / "one"
            place.mkdir(parents=True)
            (place / f"{EVIL_NAME.replace('/', '')}.conf").write_text(text)

        self.machine = str(self.folder / "machine.conf")
        tree = str(self.tree).replace(EVIL_NAME, "")
        (self.folder / "machine.conf").write_text(
            f'Machine {{ Name = "m"; FileSet = all; Repository = "{self.command.repository}"\n'
            f'  Passphrase File = "{self.folder}/absent"; Run = daily at 2:00\n'
            f'  Notify Command = "cat > /dev/null" }}\n'
            f'FileSet {{ Name = all; Include {{ File = "{tree}" }} }}\n'
        )
        self.answers = str(self.folder / "answers.toml")
        (self.folder / "answers.toml").write_text(
            f"address = {json.dumps(EVIL)}\n{json.dumps(EVIL)} = 7\n"
        )

    def _repository_lines(self) -> dict[Leaf, list[list[str]]]:
        tree, out, folder = str(self.tree), self.out, str(self.folder)
        snapshot = f"latest:{tree}"
        damaged = ["--repo", folder + "/damaged"]
        other = folder + "/other" + EVIL_NAME
        key = ["--key-file", str(self.command.restore_key)]
        return {
            ("init",): [["--repo", out + "/new", "--label", EVIL], ["--repo", folder]],
            ("backup",): [
                [tree, *self._labels()],
                [tree + EVIL_NAME],
                [tree, "--exclude", EVIL_NAME, "--parent", EVIL, "--compression", EVIL],
                ["--source", EVIL, tree],
            ],
            ("restore",): [
                [snapshot, "--target", out + "/back", "--verify"],
                [snapshot, "--target", out + "/back", "--dry-run"],
                [f"latest:{EVIL_NAME}", "--target", out],
                ["latest", "--host", EVIL, "--target", str(self.tree / "link" / "x")],
                [EVIL, "--target", "/" + EVIL_NAME + "/../x"],
                ["latest", "--target", out + "/d", "--overwrite", "always", *damaged],
            ],
            ("dump",): [
                [f"{snapshot}/{EVIL_NAME}/absent"], [EVIL], ["latest", EVIL_NAME],
            ],
            ("cache",): [[], ["--cache-dir", out + "/" + EVIL], ["--clear"]],
            # What it serves is frames, not text.
            ("serve",): [["--path", "s3://" + EVIL]],
            ("mount",): [[out + "/nowhere"], [str(self.tree / "link")]],
            ("snapshots",): [[], ["--host", EVIL], ["--group-by", "host,paths"], ["--tag", EVIL]],
            ("ls",): [["latest", "--recursive"], ["latest", "--recursive", "--long"], [
                "latest", tree, tree + "/" + EVIL_NAME, EVIL_NAME], [EVIL]],
            ("find",): [["*"], ["*", "--show-snapshots"], [EVIL_NAME], ["--regex", "(" + EVIL]],
            ("diff",): [["latest", "latest"], [EVIL, "latest"], ["latest:" + tree, "latest"]],
            ("stats",): [[], ["latest"], ["--each"], [EVIL]],
            ("tag",): [
                ["--add", EVIL, "--dry-run"], [EVIL, "--add", "a"], ["--remove", "run=" + EVIL],
            ],
            ("rewrite",): [
                ["--exclude", "*", "--dry-run"], [EVIL, "--exclude", "*"],
                ["--exclude", "none", "--new-host", EVIL, "--dry-run"],
            ],
            ("forget",): [
                ["--keep-last", "1", "--dry-run"],
                ["--keep-tag", EVIL, "--dry-run", "--group-by", "host,job,paths"],
                [EVIL],
                ["--keep-last", "1", "--repo", folder + "/forgotten"],
            ],
            ("prune",): [
                [], ["--dry-run"], damaged, ["--repo", folder + "/forgotten"],
                ["--repo", folder + "/leased", "--max-unused", "0", "--repack-below", "1"],
            ],
            ("check",): [[], ["--read-data", *damaged], ["--snapshot", EVIL]],
            ("repair",): [["--dry-run", *damaged], damaged],
            ("verify",): [
                ["latest"], ["latest", "--read-data"], [EVIL],
                ["latest", "--against", out + "/back"],
            ],
            ("copy",): [
                ["--from-repo", str(self.command.repository), "--from-key-file", key[1],
                 "--repo", other],
                ["--from-repo", out, "--repo", other],
            ],
            ("recover",): [
                [], ["--repo", self.catalogs],
                [EVIL, "--repo", self.catalogs, "--target", out + "/recovered"],
                [EVIL, "--target", out + "/none"],
                [EVIL, "--target", str(self.tree)],
            ],
            ("key", "list"): [[], ["--repo", out]],
            ("key", "add"): [["--new-password-file", out], ["--label", EVIL]],
            ("key", "remove"): [[EVIL]],
            ("key", "change"): [["--new-password-file", out]],
            ("key", "export-put"): [[out + "/put.key"], [str(self.tree)]],
            ("key", "export-appliance"): [[out + "/appliance.key"], [str(self.tree)]],
            ("key", "export-restore"): [[out + "/restore.key"], [str(self.tree)]],
            ("key", "import"): [[out + "/absent"], [str(self.good)]],
            ("vouch",): [[], ["--key-file", out], damaged],
            ("share",): [[], ["--key-file", out], damaged],
            ("lock",): [[], ["--dry-run", *damaged], ["--repo", "s3://" + EVIL], ["--repo", out]],
        }  # fmt: skip

    def _configuration_lines(self) -> dict[Leaf, list[list[str]]]:
        bad, good = str(self.bad), str(self.good)
        both = [[bad], [good], [self.out], [bad, "--component", "agent"]]
        return {
            ("config", "check"): both,
            ("config", "parse"): both,
            ("config", "show"): [*both, [bad, EVIL], [bad, "Client", EVIL]],
            ("config", "explain"): both,
            ("config", "fmt"): [*both, ["--check", bad]],
            ("config", "diff"): [[bad, good], [good, bad], [bad, bad]],
            ("config", "convert"): [
                [bad, "--into", self.out + "/conv"],
                [good, "--into", self.out + "/conv2"],
            ],
            ("config", "schema"): [[], ["--component", EVIL]],
            ("config", "docs"): [[], [EVIL]],
            ("director",): [
                ["--check", "--config", bad],
                ["--config", bad],
                ["--config", self.out],
            ],
            ("storage",): [
                [flag, "--config", bad] for flag in ("--check", "--metrics", "--confirm-clock")
            ],
            ("agent",): [["--check", "--config", bad], ["--config", bad], ["--config", self.out]],
            ("agent", "renew"): [["--config", bad], ["--config", self.out]],
            ("agent", "show"): [["--config", bad], ["--config", self.out, "--effective"]],
            ("agent", "leave"): [
                ["--config", place, "--no-stop"] for place in (bad, self.out, self.machine)
            ],
            ("agent", "rejoin"): [
                ["--config", place, "--no-start", "--name", EVIL]
                for place in (bad, self.out, self.machine)
            ],
            ("schedule", "install"): [
                ["--config", self.machine, "--into", self.out + "/units"],
                ["--config", bad, "--into", self.out],
                ["--config", self.out, "--into", self.out],
            ],
            ("schedule", "show"): [["--config", self.machine], ["--config", bad]],
            ("schedule", "run"): [["--config", self.machine], ["--config", bad]],
            ("schedule", "notify"): [
                ["--config", self.machine],
                ["--config", self.machine, "--failed"],
                ["--config", bad],
            ],
            ("setup", "appliance"): [
                ["--answers", self.answers, "--no-start"],
                ["--answers", self.out, "--no-start"],
            ],
            ("catalog", "export"): [["--config", bad], [self.out, "--config", bad]],
            ("catalog", "import"): [[self.out, "--config", bad], [good, "--config", bad]],
            ("catalog", "rebuild"): [["--config", bad]],
            ("catalog", "recover"): [["--config", bad], ["--config", self.out]],
        }

    def _director_lines(self, operator: str) -> dict[Leaf, list[list[str]]]:
        ask = ["--director", self.director.url, "--identity", operator]
        token = self.folder / "token"
        token.write_text("word")
        token.chmod(0o600)
        lines = {
            ("clients",): [[]],
            ("jobs",): [[], ["--client", "web1"]],
            ("runs",): [[], ["--job", EVIL]],
            ("run",): [["nightly"], ["nightly", "--watch"], [EVIL]],
            ("watch",): [["abcd"], [EVIL]],
            ("log",): [["abcd"], [EVIL]],
            ("cancel",): [["abcd"], [EVIL]],
            ("accept",): [["abcd"], [EVIL]],
            ("bandwidth",): [["abcd", "5M"], ["abcd", EVIL]],
            ("estimate",): [["nightly"], ["nightly", "--listing"]],
            ("browse",): [[], ["--snapshot", "abcd"]],
            ("reload",): [[]],
            ("audit",): [[], ["--who", EVIL]],
            ("client", "remove"): [["web1"], [EVIL]],
            ("notify", "test"): [[], [EVIL]],
            ("notify", "list"): [[]],
            ("notify", "retry"): [[]],
            ("status",): [[], ["--check"]],
            ("token", "create"): [["ann", "--out", "-"], ["ann", "--out", self.out + "/t"], [EVIL]],
            ("token", "withdraw"): [["abcd"], [EVIL]],
            ("token", "list"): [[]],
        }
        asked = {leaf: [[*one, *ask] for one in some] for leaf, some in lines.items()}
        asked["agent", "enrol"] = [
            ["--director", self.director.url, "--token-file", str(token), "--fingerprint",
             "ab" * 32, "--into", self.out + "/identity", "--name", "web1"],
            ["--director", EVIL, "--token-file", str(token), "--fingerprint", EVIL, "--into", "x"],
        ]  # fmt: skip
        asked["agent", "join"] = [
            [self.director.url, "--token-file", str(token), "--name", EVIL, "--no-start",
             "--config", self.out + "/join", "--state", self.out + "/state"],
            [EVIL, "--token-file", str(token), "--no-start", "--config", self.out + "/join",
             "--state", self.out + "/state", "--ca-fingerprint", "ab" * 32],
        ]  # fmt: skip
        return asked

    def _other_lines(self) -> dict[Leaf, list[list[str]]]:
        authority = ["--ca", self.out + "/ca"]
        return {
            ("ca", "init"): [[*authority, "--name", "house"], [*authority, "--name", EVIL]],
            ("ca", "issue"): [
                ["web1", "--role", "agent", "--folder", self.out + "/web1", *authority],
                [EVIL, "--role", "operator", "--folder", self.out + "/w", *authority],
            ],
            ("ca", "token"): [
                ["web2", "--out", self.out + "/token", *authority],
                [EVIL, *authority],
            ],
            ("ca", "list"): [authority, ["--ca", self.out]],
            ("ca", "renew"): [["web1", *authority], [EVIL, *authority]],
            ("ca", "revoke"): [["web1", *authority], [EVIL, *authority]],
            ("baseline",): [
                ["--dir", self.out + "/" + EVIL_NAME, "--skip", "disk", "--seconds", "0.05"],
                ["--dir", EVIL],
                ["--dir", self.out, "--server", EVIL, "--skip", "disk", "--skip", "processor"],
                ["--dir", self.out, "--skip", "disk", "--seconds", "0.05", "--html", EVIL + "/x"],
                ["--fleet", EVIL, "--html", self.out + "/fleet.html"],
                ["--compare", "last", "--profile", EVIL],
                ["--compare", EVIL, "--repo", str(self.command.repository)],
            ],
            ("tune",): [
                [
                    "--dir",
                    self.out + "/" + EVIL_NAME,
                    "--minutes",
                    "0.001",
                    "--inventory",
                    self.out,
                    "--state",
                    self.out + "/" + EVIL_NAME + ".state",
                    "-v",
                ],
                ["--dir", EVIL],
                ["--dir", self.out, "--knobs", EVIL],
                ["--dir", self.out, "--change", EVIL],
                ["--dir", self.out, "--link", EVIL],
                ["--dir", self.out, "--host", EVIL],
                ["--dir", self.out, "--inventory", EVIL],
                ["--dir", self.out, "--resume", "--state", self.out + "/" + EVIL_NAME],
            ],
            ("self-test",): [[]],
            ("version",): [[]],
            ("schedule", "remove"): [["--config", self.out, "--user"]],
            **{("completion", shell): [[]] for shell in ("bash", "zsh", "fish", "tcsh")},
            ("completion",): [
                [
                    "--names",
                    "snapshots",
                    "--words",
                    "strongroom",
                    "--repo",
                    str(self.command.repository),
                ],
                [
                    "--names",
                    "clients",
                    "--begin",
                    EVIL,
                    "--words",
                    "strongroom",
                    "--director",
                    self.director.url,
                ],
            ],
        }

    def copy_damaged(self) -> None:
        """Repositories of their own for commands that damage or that meet damage."""
        for name in ("damaged", "forgotten"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.copytree(self.command.repository, self.folder / name)
        shutil.rmtree(self.out + "/recovered", ignore_errors=True)
        shutil.rmtree(self.folder / "leased", ignore_errors=True)
        shutil.copytree(self.folder / "leased-before", self.folder / "leased")
        for kind in ("packs", "snapshots", "index", "leases"):
            place = self.folder / "damaged" / kind
            for alien in (place, *(place / one for one in os.listdir(place)[:1])):
                if alien.is_dir():
                    (alien / EVIL_NAME).write_bytes(EVIL_BYTES)
        for pack in (self.folder / "damaged" / "packs").glob("*/*"):
            if pack.name.isalnum():
                pack.chmod(0o600)
                data = bytearray(pack.read_bytes())
                data[-200 if len(data) > 400 else 100] ^= 1
                pack.write_bytes(bytes(data))

    def _run(self, *words: str) -> None:
        self.command.run(*words, key_file=self.command.restore_key)

    def run(self, leaf: Leaf, words: list[str]) -> subprocess.CompletedProcess[bytes]:
        """Run a command line with the restore key, as far as it takes one."""
        environment = {
            **self.command.environment,
            "STRONGROOM_PASSWORD": PASSPHRASE,
        }
        return run_command([*leaf, *words], environment, self.folder)


@pytest.fixture(scope="module")
def real_director(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDirector]:
    with RunningDirector(tmp_path_factory.mktemp("director").resolve()) as running:
        yield running


@pytest.fixture(scope="module")
def director(
    real_director: RunningDirector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HostileDirector]:
    house = House(tmp_path_factory.mktemp("house").resolve())
    identity = house.identity("boss", "director", "localhost")
    description = real_director.client("admin").get("/openapi.json").json()
    with HostileDirector(identity, description, EVIL) as serving:
        serving.house = house  # type: ignore[attr-defined]
        yield serving


@pytest.fixture(scope="module")
def site(director: HostileDirector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    house = director.house  # type: ignore[attr-defined]
    made = Site(tmp_path_factory.mktemp("site"), director, house.operator.folder.decode())
    yield made
    made.close()


def test_every_command_is_run_here(site):
    assert set(site.lines) == set(LEAVES)


@pytest.mark.parametrize("form", ["--verbose", "--json"])
@pytest.mark.parametrize("leaf", LEAVES, ids=" ".join)
def test_a_command_shows_nothing_that_drives_a_terminal(site, director, leaf, form):
    site.copy_damaged()
    said = b""
    asks = any(director.url in words for words in site.lines[leaf])
    for refuses in (False, True) if asks else (False,):
        director.refuses = refuses
        for words in site.lines[leaf]:
            ended = site.run(leaf, [*words, form])
            said += ended.stdout + ended.stderr
            assert b"Traceback" not in ended.stderr, (leaf, words, ended.stderr.decode())
            assert_harmless(ended.stderr, (leaf, words))
            if leaf not in EXEMPT or ended.returncode:
                assert_harmless(ended.stdout, (leaf, words))
            if form == "--json" and leaf[0] not in ("completion", "config"):
                for said_object in objects_of(ended.stdout):
                    assert said_object["type"], (leaf, words, said_object)
    # What is hostile was shown, or else nothing was tested.
    assert b"PWNED" in said or is_harmless(leaf, form), said.decode()


def test_a_prune_that_waits_names_who_it_waits_for(site):
    site.copy_damaged()
    words = ["--repo", str(site.folder / "leased"), "--max-unused", "0", "--repack-below", "1"]
    ended = site.run(("prune",), words)
    assert b"waiting for:" in ended.stdout
    assert b"PWNED" in ended.stdout
    assert_harmless(ended.stdout, "prune")


def test_json_says_names_exactly(site):
    ended = site.run(("ls",), ["latest", "--recursive", "--json"])
    entries = objects_of(ended.stdout)
    assert_harmless(ended.stdout, "ls")
    paths = [base64.b64decode(one["path"]["base64"]) for one in entries if "base64" in one["path"]]
    assert os.fsencode(site.tree) + b"/" + EVIL_BYTES + b"/" + EVIL_BYTES in paths
    ended = site.run(("snapshots",), ["--json"])
    assert_harmless(ended.stdout, "snapshots")
    found = objects_of(ended.stdout)
    assert {(one["host"], one["job"], one["fileset"], *one["tags"]) for one in found} == {
        (EVIL, EVIL, EVIL, EVIL)
    }


def on_a_terminal(words: list[str], environment: dict[str, str], keys: list[str]) -> bytes:
    """What a command writes to a terminal while keys are pressed, one every second."""
    pid, terminal = pty.fork()
    if not pid:
        os.execve(
            sys.executable, [sys.executable, "-m", "strongroom", *words],
            {**environment, "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "50"},
        )  # fmt: skip
    written = b""
    pressed = 0.0
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while time.monotonic() < deadline:
            if is_readable(terminal, 0.2):
                try:
                    data = os.read(terminal, 1 << 16)
                except OSError:
                    break
                if not data:
                    break
                written += data
            elif b"PWNED" in written and time.monotonic() - pressed > 1 and keys:
                os.write(terminal, keys.pop(0).encode())
                pressed = time.monotonic()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    assert not keys, written[-2000:]
    return written


def test_the_browser_draws_nothing_that_drives_a_terminal(site, director):
    director.refuses = False
    (words, _) = site.lines["browse",]
    written = on_a_terminal(
        ["browse", *words], site.command.environment, ["\r", " ", "\x1b[15~", "\x1b", "\x1b[21~"]
    )
    assert b"PWNED" in written
    assert b"]2;PWNED" in written
    assert b"\x1b]2;PWNED" not in written
    for letter in EVIL:
        if not letter.isprintable() and letter not in "\x1b\x07\r\n\t":
            assert letter.encode() not in written, letter


def test_on_a_terminal_only_our_own_colours_come_through(site):
    written = on_a_terminal(["config", "check", str(site.bad)], site.command.environment, [])
    assert b"\x1b[1;31merror:\x1b[0m" in written
    assert_harmless(re.sub(rb"\x1b\[[0-9;]*m|\r", b"", written), "config check")


def test_the_log_of_an_agent_holds_nothing_that_drives_a_terminal(tmp_path):
    agent = AgentSite(tmp_path.resolve())
    try:
        agent.start_connected()
        (agent.source / EVIL_NAME).write_text("content")
        script = agent.script("tell", f"printf '%s' '{EVIL}'; printf '%s' '{EVIL}' >&2")
        for fields in (
            {"scripts": (Script(command=script, when="before"),)},
            {"scripts": (Script(command=EVIL, when="before"),)},
            {"parent": EVIL, "tags": (EVIL,)},
            {"storage": StorageTarget(address="/" + EVIL, port=1, server_name=EVIL)},
        ):
            message = agent.backup(**{"job": EVIL, **fields})
            agent.director.send(message)
            agent.director.ended(message.run_id)
        agent.director.send_raw(json.dumps({"type": EVIL, EVIL: EVIL}))
        agent.director.await_connection(2)
    finally:
        agent.close()
    log = agent.messages.read_bytes()
    assert log
    assert_harmless(log, "agent")


def test_the_log_of_a_director_holds_nothing_that_drives_a_terminal(tmp_path):
    """Its formatter has its own tests; here whole lines come from a hostile agent."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PeopleLines())
    logging.getLogger().addHandler(handler)
    try:
        with (
            RunningDirector(tmp_path.resolve()) as director,
            SimulatedAgent(director, "web1", EVIL) as agent,
        ):
            agent.say_raw(json.dumps({"type": EVIL, EVIL: EVIL}))
            director.wait_for(lambda: "web1" in stream.getvalue())
    finally:
        logging.getLogger().removeHandler(handler)
    assert stream.getvalue()
    assert_harmless(stream.getvalue().encode("utf-8", "surrogatepass"), "director")
