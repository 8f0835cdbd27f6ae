"""Walks a tree as the shards do, asking a FileSetSelection, without a repository."""

from __future__ import annotations

import os
import stat

from strongroom.engine.filesets.rules import FileSetRoot, FileSetRules, FileSetSelection, outermost
from strongroom.engine.filesets.spec import FileSetSpec
from strongroom.engine.rows.rows import COLUMN_COUNT, MODE
from strongroom.engine.scan.directory import read_names, stat_rows


def rules_of(spec: FileSetSpec) -> FileSetRules:
    """The rules of a FileSet whose paths are all there."""
    roots = [
        FileSetRoot(os.fsencode(name).strip(b"/"), os.fsencode(name), number)
        for number, include in enumerate(spec.includes)
        for name in include.files
    ]
    return FileSetRules(spec, tuple(roots))


def walked(spec: FileSetSpec) -> dict[str, int]:
    """Path -> treatment of what is kept below the outermost paths, and of these."""
    rules = rules_of(spec)
    selection = FileSetSelection(rules, tells_treatments=True)
    found: dict[str, int] = {}
    here = os.open(".", os.O_PATH)
    try:
        waiting = []
        for path in outermost(rules.roots):
            above, name = os.path.split(path)
            flat, _ = stat_rows([b"/" + path])
            judged = selection.judge(above, [name], flat)
            found["/" + os.fsdecode(path)] = (judged.treatments or b"\0")[0]
            if os.path.isdir(b"/" + path):
                waiting.append(path)
        while waiting:
            path = waiting.pop()
            fd = os.open(b"/" + path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                names = read_names(fd) or []
                flat, failures = stat_rows(names)
                assert not failures
                judged = selection.judge(path, names, flat)
            finally:
                os.close(fd)
            modes = flat[MODE::COLUMN_COUNT]
            for row, name in enumerate(names):
                if judged.kept is not None and not judged.kept[row]:
                    continue
                below = path + b"/" + name
                found["/" + os.fsdecode(below)] = (judged.treatments or bytes(len(names)))[row]
                if stat.S_ISDIR(modes[row]) and name not in judged.left:
                    waiting.append(below)
        return found
    finally:
        os.fchdir(here)
        os.close(here)
