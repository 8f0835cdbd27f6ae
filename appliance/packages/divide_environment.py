#!/usr/bin/env python3
"""Copy an environment into two folders: what only the director needs, and everything else.

    divide_environment.py ENVIRONMENT SHARED DIRECTOR

Runs with Debian's python3; looks at the metadata of the installed distributions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ROOT = "strongroom"


def needed(found: dict[str, metadata.Distribution]) -> set[str]:
    """The distributions that ours needs without extras, itself included."""
    done: set[tuple[str, str]] = set()
    waiting = [(ROOT, "")]
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
    environment, shared, director = map(Path, sys.argv[1:])
    library = next(environment.glob("lib/python3*/site-packages"))
    found = {
        normalised(one.metadata["Name"]): one for one in metadata.distributions(path=[str(library)])
    }
    apart = sorted(found.keys() - needed(found))
    shutil.copytree(environment, shared, symlinks=True)
    for name in apart:
        for file in found[name].files or ():
            source = (library / file).resolve()
            if not source.is_relative_to(library):
                continue  # a program: the environment has only ours
            for path in (source, *source.parent.glob(f"__pycache__/{source.stem}.cpython-*.pyc")):
                place = path.relative_to(environment)
                if not (shared / place).exists():
                    continue
                (director / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(shared / place, director / place)
    subprocess.run(["find", shared, "-type", "d", "-empty", "-delete"], check=True)
    sys.stdout.write(f"only for the director: {', '.join(apart)}\n")  # noqa: TID251
    return 0


if __name__ == "__main__":
    sys.exit(main())
