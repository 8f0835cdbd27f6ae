"""Completion scripts complete, in the shells they are for."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kit.descriptors import many_descriptors
from kit.ports import free_port
from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.cli.commands.completion import SHELLS, names_of
from strongroom.cli.main import COMMANDS
from strongroom.cli.settings import Settings

PROGRAMS = str(Path(sys.executable).parent)


def completed(script: str, *words: str, **environment: str) -> set[str]:
    """What bash offers for the last of `words`, typed after `strongroom`."""
    typed = " ".join(f"'{word}'" for word in ("strongroom", *words))
    commands = (
        f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words)}\n"
        'function_name=$(complete -p strongroom | sed "s/.*-F \\([^ ]*\\).*/\\1/")\n'
        '$function_name; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    # A shell with completion built in, but without anybody's own settings.
    done = subprocess.run(
        ["bash", "--norc", "--noprofile"],
        input=commands,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", **environment},
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.fixture
def bash_script(strongroom):
    answer = strongroom("completion", "bash")
    assert answer.returncode == EXIT_DONE, answer.stderr
    return answer.stdout


def test_bash_completes_commands(bash_script):
    assert completed(bash_script, "") >= set(COMMANDS)
    assert completed(bash_script, "snap") == {"snapshots"}


def test_bash_completes_options_of_the_command_at_hand(bash_script):
    assert completed(bash_script, "restore", "--password-f") == {"--password-file"}
    assert "--dry-run" in completed(bash_script, "restore", "--")


def test_bash_completes_choices(bash_script):
    assert completed(bash_script, "completion", "z") == {"zsh"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_accepts_its_script(strongroom, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(strongroom("completion", shell).stdout)
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_programs_get_the_script_as_a_value(strongroom, shell):
    answer = json.loads(strongroom("completion", shell, "--json").stdout)
    assert answer["shell"] == shell
    assert "strongroom" in answer["script"]


def test_an_unknown_shell_is_a_usage_error(strongroom):
    assert strongroom("completion", "cmd.exe").returncode == UsageError.exit_code


@pytest.fixture
def place(site):
    """Where the repository of the site is, and nothing that opens it."""
    return {"STRONGROOM_REPOSITORY": str(site.command.repository), "STRONGROOM_PASSWORD": ""}


def test_bash_completes_ids_of_snapshots_without_a_passphrase(bash_script, site, place):
    short = {one[:8] for one in (site.before, site.after, site.other)}
    for words in (("ls",), ("restore",), ("diff",), ("forget",), ("check", "--snapshot")):
        assert completed(bash_script, *words, "", **place) >= {"latest", *short}, words
    first = min(short)
    assert completed(bash_script, "ls", first[:5], **place) == {first}


def test_fish_completes_ids_of_snapshots(strongroom, site, place, tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = tmp_path / "strongroom.fish"
    script.write_text(strongroom("completion", "fish").stdout)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f'source {script}; complete -C "strongroom ls "'],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", **place},
    )
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} >= {
        "latest",
        *(one[:8] for one in (site.before, site.after, site.other)),
    }


def test_zsh_completes_ids_of_snapshots(strongroom, site, place, tmp_path):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    script = tmp_path / "_strongroom"
    script.write_text(strongroom("completion", "zsh").stdout)
    # The function that the script names for a snapshot, with what zsh would have it add.
    text = (
        f"compdef() {{ }}; compadd() {{ print -rl -- ${{(P)2}} }}; source {script}\n"
        "words=(strongroom ls ''); _strongroom_snapshots\n"
    )
    done = subprocess.run(
        ["zsh", "--no-rcs", "-c", text],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", **place},
    )
    ids = {one[:8] for one in (site.before, site.after, site.other)}
    assert set(done.stdout.split()) >= {"latest", *ids}


def test_bash_looks_where_the_line_says(bash_script, site):
    shown = completed(bash_script, "ls", "--repo", str(site.command.repository), "")
    assert {one[:8] for one in (site.before, site.after, site.other)} <= shown


@pytest.mark.parametrize(
    "words",
    [
        ("ls", "--repo", "/nowhere/at/all", ""),
        ("ls", "--repo", "strongroom://127.0.0.1:1", ""),
        ("ls", ""),
        ("run", ""),
    ],
)
def test_what_cannot_be_found_out_completes_to_nothing_in_silence(bash_script, tmp_path, words):
    shown = completed(bash_script, *words, HOME=str(tmp_path), STRONGROOM_REPOSITORY="")
    assert shown <= {"latest"}


def test_a_director_that_does_not_answer_costs_two_seconds(strongroom):
    import socket

    with socket.create_server(("127.0.0.1", free_port())) as silent:
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        done = strongroom(
            "completion", "--names", "clients", "--words", "clients", "--director", address
        )
        took = time.monotonic() - began
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # Its client waits a minute; the machine may be slow.
    assert took < 40


def test_names_are_found_however_many_files_are_open(site):
    settings = Settings(str(site.command.repository), *[None] * 5, False, False, 0)
    with many_descriptors():
        assert names_of("snapshots", ("ls",), "latest", settings) == ["latest"]


def test_names_that_a_shell_could_take_for_commands_are_left_out(strongroom, tmp_path):
    folder = tmp_path / "repository" / "snapshots"
    folder.mkdir(parents=True)
    for name in ("0123456789abcdef" * 4, "$(reboot)"):
        (folder / name).write_bytes(b"x")
    done = strongroom(
        *("completion", "--names", "snapshots", "--words", "ls", "--repo", str(folder.parent))
    )
    assert "reboot" not in done.stdout
    assert done.stderr == ""


def test_a_script_needs_the_name_of_a_shell(strongroom):
    assert strongroom("completion").returncode == UsageError.exit_code
