"""`strongroom init` makes a repository once, and says what must be kept."""

import os
import pty
import subprocess
import sys

import pytest

from kit.command import PASSPHRASE, Command
from strongroom.base.errors import RepositoryExistsError, UsageError


@pytest.fixture
def bare(tmp_path):
    return Command(tmp_path)


def secret(command):
    return "--password-file", str(command.passphrase_file)


def test_a_new_repository_opens_and_says_how_to_go_on(bare):
    answer = bare.run("init", *secret(bare))
    assert "copy of the passphrase" in answer.stdout
    assert f"strongroom key export-put put.key --repo {bare.repository}" in answer.stdout
    assert bare.run("snapshots", *secret(bare)).stdout == "0 snapshots\n"


def test_commands_that_are_shown_can_be_pasted_into_a_shell(tmp_path):
    folder = tmp_path / "store & more"
    folder.mkdir()
    command = Command(folder)
    shown = command.run("init", *secret(command)).stdout
    assert f"put.key --repo '{command.repository}'" in shown
    again = command.run("init", *secret(command), exit_code=RepositoryExistsError.exit_code)
    assert f"snapshots --repo '{command.repository}'`" in again.stderr


def test_a_second_init_changes_nothing(bare):
    bare.run("init", *secret(bare))
    before = bare.stored_objects()
    answer = bare.run("init", *secret(bare), exit_code=RepositoryExistsError.exit_code)
    assert "already" in answer.stderr
    assert f"`strongroom snapshots --repo {bare.repository}`" in answer.stderr
    assert bare.stored_objects() == before


def test_a_folder_that_holds_something_else_is_left_alone(bare):
    bare.repository.mkdir()
    (bare.repository / "lost+found").mkdir()
    (bare.repository / "Full-0001").write_bytes(b"a volume of Bareos")
    answer = bare.run("init", *secret(bare), exit_code=RepositoryExistsError.exit_code)
    assert "Full-0001" in answer.stderr
    assert sorted(os.listdir(bare.repository)) == ["Full-0001", "lost+found"]
    (bare.repository / "Full-0001").unlink()
    bare.run("init", *secret(bare))


@pytest.mark.parametrize("config", [b"[repository]\nversion = 1\n", bytes(155), b""])
def test_a_repository_of_another_program_is_not_taken_for_ours(bare, config):
    (bare.repository / "data").mkdir(parents=True)
    (bare.repository / "config").write_bytes(config)
    answer = bare.run("init", *secret(bare), exit_code=RepositoryExistsError.exit_code)
    assert "empty folder" in answer.stderr
    assert (bare.repository / "config").read_bytes() == config
    assert sorted(os.listdir(bare.repository)) == ["config", "data"]


def test_a_folder_of_settings_is_left_alone(bare):
    (bare.repository / "config").mkdir(parents=True)
    answer = bare.run("init", *secret(bare), exit_code=RepositoryExistsError.exit_code)
    assert "(config)" in answer.stderr


@pytest.mark.parametrize(
    ("passphrase", "is_weak"),
    [
        ("sesame", True),
        ("sesame2026", True),
        ("päßwörter", True),
        ("Sesame-2026", False),
        ("open sesame please", False),
    ],
)
def test_a_weak_passphrase_is_warned_of_and_taken(bare, passphrase, is_weak):
    bare.passphrase_file.write_text(f"{passphrase}\n")
    answer = bare.run("init", *secret(bare))
    assert ("weak" in answer.stderr) == is_weak
    assert passphrase not in answer.stderr
    bare.run("snapshots", *secret(bare))


def test_no_repository_is_made_among_devices(bare):
    answer = bare.run(
        "init", *secret(bare), "--repo", "/dev/nst0-of-a-test",
        exit_code=RepositoryExistsError.exit_code,
    )  # fmt: skip
    assert "/dev" in answer.stderr
    assert not os.path.lexists("/dev/nst0-of-a-test")


def test_no_other_user_may_look_into_it(bare):
    bare.run("init", *secret(bare))
    assert all(not path.stat().st_mode & 0o077 for path in bare.repository.rglob("*"))


@pytest.mark.parametrize("encryption", ["aes-256-gcm", "chacha20-poly1305"])
def test_the_cipher_can_be_chosen(bare, encryption):
    answer = bare.run("init", "--encryption", encryption, "--json", *secret(bare))
    assert f'"encryption":"{encryption}"' in answer.stdout


def test_a_repository_without_encryption_says_so_loudly_and_needs_no_passphrase(bare):
    answer = bare.run("init", "--encryption", "none")
    assert "NOT ENCRYPTED" in answer.stderr
    assert bare.run("snapshots").stdout == "0 snapshots\n"


def test_without_a_passphrase_and_a_terminal_nothing_is_made(bare):
    bare.run("init", exit_code=UsageError.exit_code)
    assert not bare.repository.exists()


ON_A_TERMINAL = """
import os, fcntl, termios, sys
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "strongroom", *sys.argv[1:]])
"""


def answer_questions(command, words, answers):
    """Run on a terminal and type an answer after each question; what the terminal showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL, *words],
        env=command.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    for answer in answers:
        while not shown.rstrip().endswith(b":"):
            shown += os.read(ours, 4096)
        os.write(ours, answer.encode() + b"\n")
        shown += b"|"
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other side was closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.wait(timeout=60), shown.decode()


def test_a_person_is_asked_twice_and_the_passphrase_is_not_shown(bare):
    exit_code, shown = answer_questions(bare, ["init"], [PASSPHRASE, PASSPHRASE])
    assert exit_code == 0, shown
    assert PASSPHRASE not in shown
    bare.run("snapshots", *secret(bare))


def test_answers_that_differ_are_asked_for_again(bare):
    answers = ["one", "other", PASSPHRASE, PASSPHRASE]
    exit_code, shown = answer_questions(bare, ["init"], answers)
    assert exit_code == 0, shown
    assert shown.count("the two answers differ") == 1
    bare.run("snapshots", *secret(bare))
