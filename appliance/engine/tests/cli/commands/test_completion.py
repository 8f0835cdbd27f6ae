"""Completion scripts complete, in the shells they are for."""

import json
import shutil
import subprocess

import pytest

from strongroom.cli.commands.completion import SHELLS
from strongroom.cli.main import COMMANDS
from strongroom.errors import EXIT_DONE, UsageError


def completed(script: str, *words: str) -> set[str]:
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
    )
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
