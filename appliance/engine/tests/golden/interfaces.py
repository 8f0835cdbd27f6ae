"""The interfaces that a release promises, as they are now: what docs/reference/stability.md lists.

`interfaces()` has what the program's own tables say: directives, exit codes, options, the API's
description, inventory variables. `answers_of_commands` and `answers_of_the_api` have the shapes of
real answers: each field with the types that its values had.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

import strongroom
from kit.api_routes import every_route
from kit.project import ENGINE
from strongroom.base.errors import StrongroomError
from strongroom.cli.main import COMMANDS, command_parser
from strongroom.config.table.schema import schema

if TYPE_CHECKING:
    from kit.director_server import RunningDirector
    from kit.user import User

VARIABLES = ENGINE.parents[1] / "meta" / "variables.yml"
# Fields whose own fields are named by data.
_MAPS = {"actions", "directives", "libraries", "mounts"}
_NAMES = {"str": "text", "bool": "truth", "int": "number", "float": "number", "NoneType": "null"}


def interfaces() -> dict[str, Any]:
    """What tables of the program say, without the API."""
    return {
        "exit_codes": dict(sorted(_exit_codes())),
        "commands": {name: sorted(_options(command_parser(name))) for name in sorted(COMMANDS)},
        "directives": _directives(),
        "variables": _variables(),
    }


def _exit_codes() -> Iterator[tuple[str, int]]:
    for module in pkgutil.walk_packages(strongroom.__path__, "strongroom.", lambda _: None):
        if module.name.endswith("errors"):
            importlib.import_module(module.name)
    waiting = [StrongroomError]
    while waiting:
        one = waiting.pop()
        yield one.error_id, one.exit_code
        waiting += one.__subclasses__()


def _options(parser: argparse.ArgumentParser, before: str = "") -> Iterator[str]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way
        yield from (before + option for option in action.option_strings)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, child in action.choices.items():
                yield f"{before}{name}"
                yield from _options(child, f"{before}{name} ")


def _directives() -> dict[str, dict[str, str]]:
    found = {
        f"{component.name} {resource.name}": resource
        for component in schema().components.values()
        for resource in component.resources.values()
    }
    found |= {f"block {name}": block for name, block in schema().blocks.items()}
    return {
        name: {one.name: one.type for one in resource.directives if one.retired is None}
        for name, resource in sorted(found.items())
    }


def _variables() -> dict[str, str]:
    found = {}
    for role in yaml.safe_load(VARIABLES.read_text())["roles"].values():
        for name, one in role["options"].items():
            found[name] = one["type"] + (f" of {one['elements']}" if "elements" in one else "")
    return dict(sorted(found.items()))


def described_api(described: dict[str, Any]) -> dict[str, Any]:
    """Request -> the fields of what it takes and of what it answers, as OpenAPI describes it."""
    found = {}
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            answers = [
                body["schema"]
                for status, answer in operation["responses"].items()
                if status.startswith("2")
                for body in answer.get("content", {}).values()
                if "schema" in body
            ]
            taken = operation.get("requestBody", {}).get("content", {})
            found[f"{method.upper()} {path}"] = {
                "takes": sorted(
                    {f"{one['in']} {one['name']}" for one in operation.get("parameters", ())}
                    | {
                        f"body {name}"
                        for body in taken.values()
                        for name in _fields(body["schema"], described)
                    }
                ),
                "answers": sorted({name for one in answers for name in _fields(one, described)}),
            }
    return dict(sorted(found.items()))


def _fields(part: Any, described: dict[str, Any], before: str = "", depth: int = 0) -> set[str]:
    if not isinstance(part, dict) or depth > 12:
        return set()
    if "$ref" in part:
        part = described["components"]["schemas"][part["$ref"].rsplit("/", 1)[1]]
    found = set()
    for name, one in part.get("properties", {}).items():
        found.add(f"{before}{name}")
        found |= _fields(one, described, f"{before}{name}.", depth + 1)
    for name in ("items", "additionalProperties"):
        found |= _fields(part.get(name), described, f"{before}*.", depth + 1)
    for name in ("anyOf", "oneOf", "allOf"):
        for one in part.get(name, ()):
            found |= _fields(one, described, before, depth + 1)
    return found


def shape(answer: Any, before: str = "") -> dict[str, list[str]]:
    """Field -> the kinds of values that it has; `*` stands for every item of a list."""
    found: dict[str, set[str]] = {}

    def enter(value: Any, place: str) -> None:
        if isinstance(value, dict):
            is_map = place.rpartition(".")[2] in _MAPS
            for name, one in value.items():
                part = "*" if is_map else name
                enter(one, f"{place}.{part}" if place else part)
        elif isinstance(value, list):
            for one in value:
                enter(one, f"{place}.*" if place else "*")
        else:
            found.setdefault(place, set()).add(_NAMES[type(value).__name__])

    enter(answer, before)
    return {name: sorted(kinds) for name, kinds in sorted(found.items())}


def answers_of_the_api(director: RunningDirector) -> dict[str, dict[str, list[str]]]:
    """GET request -> the shape of its answer, where it is JSON."""
    found = {}
    with director.client("admin") as api:
        described = api.get("/openapi.json").json()
        snapshot = str(director.snapshots[0].id)
        for route in every_route(described, {"snapshot_id": (snapshot,)}):
            if route.method != "GET" or "stream" in route.pattern or "openapi" in route.pattern:
                continue
            answer = route.ask(api)
            if answer.headers.get("content-type", "").startswith("application/json"):
                found[f"{route.pattern} {answer.status_code}"] = shape(answer.json())
    return dict(sorted(found.items()))


def answers_of_commands(user: User, source: Path) -> dict[str, dict[str, list[str]]]:
    """Command and type of object -> its shape, of a backup, what one does with it, and its end."""
    (source / "folder").mkdir()
    (source / "folder" / "file").write_bytes(b"content" * 100)
    (source / "link").symlink_to("folder/file")
    found: dict[str, dict[str, list[str]]] = {}
    for words in (
        ("backup", source, "--tag", "golden"),
        ("backup", source),
        ("snapshots",),
        ("ls", "latest", "/", "-R"),
        ("find", "file"),
        ("stats",),
        ("key", "list"),
        ("check", "--read-data"),
        ("verify", "latest"),
        ("restore", "latest", "--target", user.folder / "back"),
        ("forget", "--keep-last", "1"),
        ("prune",),
        ("version",),
    ):
        outcome = user.run(*words)
        for line in outcome.objects:
            for one in line if isinstance(line, list) else [line]:
                name = " ".join([str(words[0]), str(one.get("type", ""))]).strip()
                kinds = found.setdefault(name, {})
                for field, new in shape(one).items():
                    kinds[field] = sorted({*kinds.get(field, ()), *new})
    return dict(sorted(found.items()))


def missing(promised: Any, now: Any, place: str = "") -> list[str]:
    """What of a recorded interface is not there any more, or is another kind of value."""
    if isinstance(promised, dict):
        if not isinstance(now, dict):
            return [place]
        return [
            fault
            for name, one in promised.items()
            for fault in (
                missing(one, now[name], f"{place} {name}".strip())
                if name in now
                else [f"{place} {name}".strip()]
            )
        ]
    if isinstance(promised, list):
        # Kinds of a value: null may become a value, and the other way round.
        if set(promised) <= {*_NAMES.values()} and promised:
            before, after = {*promised} - {"null"}, {*now} - {"null"}
            return [] if not before or after <= before else [f"{place}: {before} is {after}"]
        return [f"{place} {one}" for one in promised if one not in now]
    return [] if promised == now else [f"{place}: {promised} is {now}"]


def write(path: Path, document: dict[str, Any]) -> None:
    """Write what a release promises, so that a change is a line."""
    path.write_text(json.dumps(document, indent=0, sort_keys=True) + "\n")
