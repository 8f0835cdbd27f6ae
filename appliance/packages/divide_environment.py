#!/usr/bin/env python3
"""Copy an environment into three folders: what only one package needs, and everything else.

    divide_environment.py ENVIRONMENT SHARED DIRECTOR APPLIANCE

APPLIANCE gets the program of the appliance and what it needs beside the engine; DIRECTOR gets what
no one else needs. Runs with Debian's python3; checks the metadata of the installed distributions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ENGINE = "strongroom"
PROGRAM = "strongroom-appliance"
# Extras that every machine gets with its packages: `--repo s3:` needs no other.
OF_EVERYBODY = ("s3",)


def needed(
    found: dict[str, metadata.Distribution], ours: str, extras: tuple[str, ...] = ()
) -> set[str]:
    """The distributions that one of ours needs with these extras, itself included."""
    done: set[tuple[str, str]] = set()
    waiting = [(ours, ""), *((ours, extra) for extra in extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in done or name not in found:
            continue
        done.add((name, extra))
        for requirement in found[name].requires or ():
            parts = re.fullmatch(r"([\w.-]+)(?:\[([\w,. -]+)\])?([^;]*)(?:;(.*))?", requirement)
            if parts is None:
                raise SystemExit(f"divide_environment: cannot read the requirement {requirement}")
            wanted_by = re.search(r"extra *== *['\"]([\w-]+)['\"]", parts[4] or "")
            if (wanted_by[1] if wanted_by else "") != extra:
                continue
            other = normalised(parts[1])
            waiting += [(other, ""), *((other, one.strip()) for one in (parts[2] or "").split(","))]
    return {name for name, _ in done}


def normalised(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    """Copy; the exit status."""
    environment, shared, director, appliance = map(Path, sys.argv[1:])
    library = next(environment.glob("lib/python3*/site-packages"))
    found = {
        normalised(one.metadata["Name"]): one for one in metadata.distributions(path=[str(library)])
    }
    of_engine, of_program = needed(found, ENGINE, OF_EVERYBODY), needed(found, PROGRAM)
    parts = {
        appliance: sorted(of_program - of_engine),
        director: sorted(found.keys() - of_engine - of_program),
    }
    shutil.copytree(environment, shared, symlinks=True)
    for part, names in parts.items():
        for name in names:
            move_files(found[name], environment, shared, part)
        text = f"only in {part.parents[1].name}: {', '.join(names)}\n"
        sys.stdout.write(text)  # noqa: TID251
    subprocess.run(["find", shared, "-type", "d", "-empty", "-delete"], check=True)
    return 0


def move_files(
    distribution: metadata.Distribution, environment: Path, shared: Path, part: Path
) -> None:
    """Move what an environment has of a distribution from one folder to another."""
    for file in distribution.files or ():
        source = Path(str(distribution.locate_file(file))).resolve()
        if not source.is_relative_to(environment):
            continue
        for path in (source, *source.parent.glob(f"__pycache__/{source.stem}.cpython-*.pyc")):
            place = path.relative_to(environment)
            # A program of a library was removed before; `bin/python` is not a file of any.
            if not (shared / place).exists():
                continue
            (part / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(shared / place, part / place)


if __name__ == "__main__":
    sys.exit(main())
