"""`strongroom key` looks after passphrases without touching data; a put key reads nothing."""

import re
import stat

import pytest

from strongroom.base.errors import KeyRightError, UsageError, WrongKeyError


@pytest.fixture
def second(command, tmp_path):
    """A file with another passphrase."""
    path = tmp_path / "second"
    path.write_text("shut, sesame\n")
    path.chmod(0o600)
    return path


def opens(command, passphrase_file):
    answer = command.run("snapshots", "--password-file", str(passphrase_file), exit_code=0)
    return answer.returncode == 0


def refused(command, passphrase_file):
    words = ("snapshots", "--password-file", str(passphrase_file))
    return command.run(*words, exit_code=WrongKeyError.exit_code).returncode


def ids(command):
    return [key["id"] for key in command.objects("key", "list")]


def test_a_second_passphrase_opens_too(command, second):
    command("key", "add", "--new-password-file", str(second), "--label", "spare")
    assert opens(command, second)
    assert opens(command, command.passphrase_file)
    assert sorted(key["label"] for key in command.objects("key", "list")) == ["", "spare"]
    assert "spare" in "\n".join(command("key", "list"))


def test_a_new_passphrase_that_cannot_be_asked_for_is_named_with_its_own_option(command):
    words = ("key", "add", "--password-file", str(command.passphrase_file))
    answer = command.run(*words, exit_code=UsageError.exit_code)
    assert "use --new-password-file or --new-password-command" in answer.stderr


def test_a_removed_passphrase_opens_nothing_and_the_last_stays(command, second):
    (first,) = ids(command)
    command("key", "add", "--new-password-file", str(second))
    command("key", "remove", first[:6])
    assert refused(command, command.passphrase_file)
    assert opens(command, second)
    (last,) = ids(command)
    command("key", "remove", last, exit_code=UsageError.exit_code)
    assert opens(command, second)


def test_a_change_replaces_one_passphrase_and_rewrites_no_data(command, second, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_bytes(bytes(range(256)) * 1000)
    command.back_up(str(tmp_path / "data"))
    before = {
        name: object_ for name, object_ in command.stored_objects().items() if "keys/" not in name
    }
    command.run(
        "key", "change", "--password-file", str(command.passphrase_file),
        "--new-password-file", str(second),
    )  # fmt: skip
    assert refused(command, command.passphrase_file)
    assert opens(command, second)
    after = {
        name: object_ for name, object_ in command.stored_objects().items() if "keys/" not in name
    }
    assert after == before
    assert len(ids(command)) == 1


def test_a_change_needs_the_old_passphrase(command, second):
    command.run(
        "key", "change", "--password-file", str(second), "--new-password-file", str(second),
        exit_code=WrongKeyError.exit_code,
    )  # fmt: skip
    command("key", "change", "--new-password-file", str(second), exit_code=UsageError.exit_code)
    assert opens(command, command.passphrase_file)


def test_a_weak_new_passphrase_is_warned_of(command, tmp_path):
    weak = tmp_path / "weak"
    weak.write_text("sesame\n")
    weak.chmod(0o600)
    words = ("key", "add", "--new-password-file", str(weak))
    added = command.run(*words, key_file=command.restore_key)
    assert "the passphrase is weak" in added.stderr
    assert opens(command, weak)


def test_an_exported_restore_key_brings_back_a_lost_passphrase(command, second):
    command.run("key", "import", str(command.restore_key), "--new-password-file", str(second))
    assert opens(command, second)
    command.run(
        "key", "import", str(command.put_key), "--new-password-file", str(second),
        exit_code=KeyRightError.exit_code,
    )  # fmt: skip


def test_a_key_file_is_for_its_owner_only_and_never_overwritten(command):
    for path in (command.put_key, command.restore_key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        text = path.read_text()
        command("key", "export-put", str(path), exit_code=UsageError.exit_code)
        assert path.read_text() == text


def test_a_key_can_be_printed(command):
    assert "\n".join(command("key", "export-put", "-")) + "\n" == command.put_key.read_text()


def test_the_key_of_another_repository_opens_nothing(command, tmp_path_factory):
    from kit.command import Command

    other = Command(tmp_path_factory.mktemp("other"))
    other.make_repository()
    command.run("snapshots", key_file=other.put_key, exit_code=WrongKeyError.exit_code)
    command.run("ls", key_file=other.restore_key, exit_code=WrongKeyError.exit_code)


@pytest.fixture(scope="module")
def agent_key(site):
    """The file with the put key of a client."""
    path = site.command.folder / "agent.key"
    site.command("key", "export-put", "--client", "agent", str(path))
    return path


@pytest.fixture(scope="module")
def agent_site(site, agent_key):
    """A snapshot that the holder of a put key made."""
    answer = site.command.run("backup", str(site.tree), key_file=agent_key)
    assert "snapshot" in answer.stdout
    return site


def test_the_appliance_key_makes_put_keys_and_reads_nothing(site, agent_key, tmp_path):
    command, path = site.command, tmp_path / "appliance.key"
    command("key", "export-appliance", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    made = command.run("key", "export-put", "--client", "agent", "-", key_file=path)
    assert made.stdout == agent_key.read_text()
    other = command.run("key", "export-put", "--client", "other", "-", key_file=path)
    assert other.stdout != agent_key.read_text()
    for words in (
        ("ls", "latest"),
        ("key", "export-restore", "-"),
        ("key", "export-appliance", "-"),
    ):
        command.run(*words, key_file=path, exit_code=KeyRightError.exit_code)


def test_a_put_key_is_of_one_client(site, agent_key):
    command = site.command
    for words in (
        ("backup", str(site.tree), "--host", "web1"),
        ("key", "export-put", "--client", "web1", "-"),
    ):
        answer = command.run(*words, key_file=agent_key, exit_code=KeyRightError.exit_code)
        assert "agent, not of web1" in answer.stderr
    assert command.run("key", "export-put", "-", key_file=agent_key).stdout == agent_key.read_text()


def test_a_put_key_adds_and_deduplicates(agent_site, agent_key):
    command = agent_site.command
    before = sum(size for _, size in command.stored_objects().values())
    command.run("backup", str(agent_site.tree), "--host", "agent", key_file=agent_key)
    after = sum(size for _, size in command.stored_objects().values())
    assert after - before < 16384  # the tree has 2.4 MB
    assert [found["host"] for found in command.objects("snapshots", "--host", "agent")] == [
        "agent", "agent"
    ]  # fmt: skip
    assert "notes.txt" in "".join(command("ls", "latest", "/", "-R", "--host", "agent"))
    # It lists what is its own, and nothing of other clients.
    own = command.run("snapshots", key_file=agent_key).stdout
    assert own.endswith("2 snapshots\n")
    assert agent_site.before[:8] not in own


READING = {
    "ls": ("ls", "latest"),
    "find": ("find", "*"),
    "diff": ("diff", "BEFORE", "AFTER"),
    "stats of a snapshot": ("stats", "latest"),
    "restore": ("restore", "latest", "--target", "TARGET"),
    "verify": ("verify", "latest"),
    "mount": ("mount", "TARGET", "--foreground"),
    "copy": ("copy", "--from-repo", "REPOSITORY", "--from-key-file", "PUT"),
    "key add": ("key", "add", "--new-password-file", "PASSPHRASE"),
    "key remove": ("key", "remove", "0"),
    "key export-restore": ("key", "export-restore", "TARGET/restore.key"),
    "check of all bytes": ("check", "--read-data"),
    "prune": ("prune",),
}


@pytest.mark.parametrize("name", READING)
def test_a_put_key_reads_nothing(agent_site, agent_key, tmp_path, name):
    command = agent_site.command
    meaning = {
        "BEFORE": agent_site.before,
        "AFTER": agent_site.after,
        "TARGET": str(tmp_path),
        "REPOSITORY": str(command.repository),
        "PUT": str(agent_key),
        "PASSPHRASE": str(command.passphrase_file),
    }
    pattern = re.compile("|".join(meaning))
    words = [pattern.sub(lambda found: meaning[found.group()], word) for word in READING[name]]
    answer = command.run(*words, key_file=agent_key, exit_code=KeyRightError.exit_code)
    assert "[key-right]" in answer.stderr
    assert answer.stdout == ""
    assert list(tmp_path.iterdir()) == []
