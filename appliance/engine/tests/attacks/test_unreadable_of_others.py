"""A snapshot that cannot be read concerns its client, which is named, and no one else."""

import pytest

from kit.command import Command
from kit.json_output import objects_of
from strongroom.base.errors import DamageError, SetAsideError


@pytest.fixture
def stored(folder):
    made = Command(folder)
    made.make_repository()
    tree = folder / "tree"
    tree.mkdir()
    (tree / "file").write_text("sound\n")
    names = {host: made.back_up(str(tree), "--host", host) for host in ("web1", "web2", "web3")}
    # Of one client a readable one is left.
    names["web1"] = made.back_up(str(tree), "--host", "web1")
    return made, names


def damage(command, name):
    """Change the last byte of a snapshot that no cache has noted; its id."""
    command("cache", "--clear")
    (file,) = command.repository.glob(f"snapshots/**/{name}")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.chmod(0o600)
    file.write_bytes(data)
    return name


def test_the_latest_of_one_client_is_restored_whatever_another_lost(stored):
    command, names = stored
    lost = {damage(command, names[host]) for host in ("web1", "web3")}
    target = command.folder / "restored"
    ended = command.run(
        "restore", "latest", "--host", "web2", "--target", str(target), key_file=command.restore_key
    )
    assert all(name in ended.stderr for name in lost)
    assert [file.read_text() for file in target.rglob("file")] == ["sound\n"]
    for host in ("web1", "web3"):
        words = ("ls", "latest", "--host", host)
        command.run(*words, exit_code=DamageError.exit_code, key_file=command.restore_key)


def test_what_is_set_aside_names_its_client(stored):
    command, names = stored
    lost = {damage(command, names["web1"]): "web1", damage(command, names["web3"]): "with the id"}
    said = objects_of("\n".join(command("snapshots", "--json", exit_code=SetAsideError.exit_code)))
    named = {one["name"]: one["client"] for one in said if one["type"] == "set_aside"}
    assert named.keys() == lost.keys()
    assert all(client.startswith(lost[name]) for name, client in named.items())
