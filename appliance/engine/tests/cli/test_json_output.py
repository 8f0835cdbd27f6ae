"""Commands emit the objects and fields that docs/reference/json-output.md names, and no others."""

import json
import re
from collections import defaultdict

import pytest

from kit.json_output import objects_of
from kit.project import DOCUMENTS
from strongroom.base.errors import EXIT_DONE, EXIT_INCOMPLETE, CheckFailedError

DOCUMENT = DOCUMENTS / "reference" / "json-output.md"


def outside_parentheses(text: str) -> str:
    depth, kept = 0, []
    for character in text:
        depth += (character == "(") - (character == ")")
        if not depth:
            kept.append(character)
    return "".join(kept)


def documented() -> dict[str, dict[str, set[str]]]:
    """Command -> type -> fields; optional ones carry a question mark."""
    commands: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for line in DOCUMENT.read_text().splitlines():
        cells = outside_parentheses(line).split("|")[1:-1]
        if len(cells) != 3 or not (types := re.findall(r"`([a-z_]+)`", cells[1])):
            continue
        optional = {f"{field}?" for field in re.findall(r"\*`([a-z_]+)`\*", cells[2])}
        fields = set(re.findall(r"`([a-z_]+)`", cells[2]))
        fields = {field for field in fields if f"{field}?" not in optional} | optional | {"type"}
        for name in re.findall(r"`([a-z-]+)`", cells[0]) or ["any"]:
            for kind in types:
                commands[name].setdefault(kind, {"type"}).update(fields)
    return commands


@pytest.fixture(scope="module")
def promised() -> dict[str, dict[str, set[str]]]:
    commands = documented()
    entry = commands["ls"]["entry"]
    commands["find"]["match"] |= entry
    commands["find"]["version"] |= entry - {"snapshot"}
    return commands


@pytest.fixture
def emitted(strongroom, tmp_path):
    """Run commands on a small repository; every object they emit, with its command."""
    place = {
        "STRONGROOM_REPOSITORY": str(tmp_path / "repository"),
        "STRONGROOM_PASSWORD": "open sesame",
    }
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_text("content")
    (data / "link").symlink_to("file")
    data.joinpath("sub").mkdir()
    objects: list[tuple[str, dict[str, object]]] = []

    def run(*words: str, codes: tuple[int, ...] = (EXIT_DONE,)) -> None:
        answer = strongroom(*words, "--json", **place)
        assert answer.returncode in codes, (words, answer.stderr)
        objects.extend((words[0], one) for one in objects_of(answer.stdout))

    run("init")
    run("backup", str(data))
    (data / "file").write_text("other content")
    (data / "new").write_text("new")
    run("backup", str(data), "--signature", "blake3")
    run("snapshots")
    run("ls", "latest", "--recursive")
    run("find", "*")
    run("find", "file", "--show-snapshots")
    ids = [thing["id"] for command, thing in objects if command == "snapshots"]
    run("diff", *ids)
    run("restore", "latest", "--target", str(tmp_path / "restored"), "--verify", "--verbose")
    run("check", "--read-data")
    run("stats")
    run("stats", "latest")
    run("verify", "latest")
    run("key", "list")
    run("key", "export-put", str(tmp_path / "put.key"))
    run("forget", "--keep-last", "1")
    run("prune")
    other = str(tmp_path / "other")
    run("init", "--repo", other)
    for more in (["--dry-run"], [], []):
        run("copy", "--from-repo", place["STRONGROOM_REPOSITORY"], "--repo", other, *more)
    for pack in (tmp_path / "other" / "packs").glob("*/*"):
        content = pack.read_bytes()
        pack.chmod(0o600)
        pack.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    run("check", "--read-data", "--repo", other, codes=(CheckFailedError.exit_code,))
    run("repair", "--repo", other, codes=(EXIT_DONE, EXIT_INCOMPLETE))
    authority = ("--ca", str(tmp_path / "ca"))
    run("ca", "init", *authority)
    issue = ("web1", "--role", "agent", "--folder", str(tmp_path / "web1"))
    run("ca", "issue", *issue, *authority)
    run("ca", "token", "web2", "--out", "-", *authority)
    run("ca", "list", *authority)
    tokens = [thing["id"] for _, thing in objects if thing["type"] == "enrolment_token"]
    run("ca", "token", "--withdraw", *tokens, *authority)
    run("ca", "revoke", "web1", *authority)
    for command in ("self-test", "version"):
        run(command)
    run("completion", "bash")
    return objects


@pytest.mark.parametrize("words", [("snapshots",), ("key", "list")])
def test_a_list_is_one_array(strongroom, tmp_path, words):
    place = {"STRONGROOM_REPOSITORY": str(tmp_path / "r"), "STRONGROOM_PASSWORD": "open sesame"}
    strongroom("init", **place)
    answer = strongroom(*words, "--json", **place)
    assert isinstance(json.loads(answer.stdout), list)
    # Nothing is not a list, where the command has failed.
    place["STRONGROOM_REPOSITORY"] = str(tmp_path / "none")
    assert strongroom(*words, "--json", **place).stdout == ""


def test_what_commands_emit_is_what_the_document_says(emitted, promised):
    seen = set()
    for command, thing in emitted:
        kind = thing["type"]
        fields = promised[command].get(kind) or promised["any"].get(kind)
        assert fields, f"{command} emits {kind}, which the document does not name"
        required = {field for field in fields if not field.endswith("?")}
        allowed = required | {field[:-1] for field in fields if field.endswith("?")}
        assert required <= thing.keys() <= allowed, (command, kind)
        seen.add((command, kind))
    assert seen >= {
        ("backup", "summary"),
        ("restore", "summary"),
        ("ls", "entry"),
        ("find", "version"),
        ("diff", "difference"),
        ("check", "check_summary"),
        ("stats", "repository_stats"),
        ("stats", "snapshot_stats"),
        ("verify", "summary"),
        ("check", "check_finding"),
        ("repair", "repair_loss"),
        ("repair", "repair_summary"),
        ("copy", "planned"),
        ("copy", "copied"),
        ("copy", "skipped"),
        ("prune", "prune"),
        ("ca", "enrolment_token"),
        ("ca", "enrolment_token_withdrawn"),
    }
