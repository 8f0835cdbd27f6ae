"""`@|command` includes: idioms that are read as patterns instead of being run.

Nothing is run here. Common commands that read a folder are recognised instead: `cat` of patterns,
`find`, `ls`, and loops over them that print files or put an `@` before their names. Any other
command needs --allow-commands.
"""

from __future__ import annotations

import os
import re
import shlex

_FIND_DEPTH = 8
# What a loop does with its variable: print the file's name behind an `@`, or the file.
_BODY = r"""(?:(?:echo|printf\s+'?"?%s\\n"?'?)\s+["']?@["']?|cat\s+["']?)
    \\?\$\{?(?P=variable)\}?["']?\s*;?\s*done\s*;?\s*$"""
_FOR_LOOP = re.compile(
    r"""^for\s+(?P<variable>[A-Za-z_]\w*)\s+in\s+
    (?:(?P<patterns>[^;|&$`()<>]+?)|\$\((?P<listing>[^;|&$`()<>]+)\)|`(?P<quoted>[^;|&$`()<>]+)`)
    \s*;\s*do\s+"""
    + _BODY,
    re.VERBOSE,
)
_WHILE_LOOP = re.compile(
    r"^while\s+read\s+(?:-r\s+)?(?P<variable>[A-Za-z_]\w*)\s*;\s*do\s+" + _BODY, re.VERBOSE
)
_SED_PREFIX = re.compile(r"^sed\s+(?:-e\s+)?['\"]?s(?P<mark>[^\w\s])\^(?P=mark)@(?P=mark)g?['\"]?$")
_XARGS = re.compile(
    r"""^xargs\s+(?:-[0r]\s+|-n\s*1\s+)*
    (?:cat|-I\s*(?P<place>[^\s'"]+)\s+(?:cat\s+["']?|echo\s+["']?@)(?P=place)["']?)$""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"^[^$`&;<>()|!{}\\]+$")
# Characters that a shell would expand and our patterns do not.
_EXPANDED = re.compile(r"[\[\]{}$`]|^~")


def patterns_of_command(command: str) -> list[str] | None:
    """The patterns that mean `command`, if it only lists or prints configuration files.

    `sh -c` around it makes no difference. None for any other command.
    """
    command = command.strip()
    unwrapped = _unwrapped_shell(command)
    patterns = _patterns(command if unwrapped is None else unwrapped.strip())
    if patterns is None or any(_EXPANDED.search(pattern) for pattern in patterns):
        return None
    return patterns


def _patterns(command: str) -> list[str] | None:
    loop = _FOR_LOOP.match(command)
    if loop:
        listing = loop["listing"] or loop["quoted"]
        return _listed(listing) if listing else loop["patterns"].split()
    first, bar, second = command.partition("|")
    if bar:
        second = second.strip()
        known = (_SED_PREFIX, _XARGS, _WHILE_LOOP)
        return _listed(first) if any(one.match(second) for one in known) else None
    words = _words(command)
    if words[:1] in (["cat"], ["/bin/cat"], ["/usr/bin/cat"]):
        paths = [word for word in words[1:] if not word.startswith("-")]
        return paths if _PLAIN.match(command) and paths else None
    return _found(words)


def _unwrapped_shell(command: str) -> str | None:
    words = _words(command)
    shells = ("sh", "/bin/sh", "bash", "/bin/bash", "dash", "/usr/bin/sh", "/usr/bin/bash")
    if len(words) == 3 and words[0] in shells and words[1] == "-c":
        return words[2]
    return None


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _listed(command: str) -> list[str] | None:
    """Patterns for `ls` or `find` as the source of a loop or a pipe."""
    words = _words(command)
    if not _PLAIN.match(command):
        return None
    if words[:1] == ["ls"]:
        paths = [word for word in words[1:] if not word.startswith("-")]
        return [path if _is_file(path) else os.path.join(path, "*") for path in paths] or None
    return _found(words)


def _is_file(path: str) -> bool:
    """Whether a word of `ls` means files, not a folder to list."""
    return "*" in path or "?" in path or path.endswith(".conf")


def _found(words: list[str]) -> list[str] | None:
    """Patterns for `find FOLDER... [-type f] [-name PATTERN] [-print | -exec cat/echo @{} ;]`.

    Without -maxdepth it goes _FIND_DEPTH folders deep.
    """
    if words[:1] not in (["find"], ["/usr/bin/find"]):
        return None
    folders: list[str] = []
    given = {"-name": "*", "-maxdepth": str(_FIND_DEPTH), "-mindepth": "1", "-type": "f"}
    rest = words[1:]
    while rest and not rest[0].startswith("-"):
        folders.append(rest.pop(0))
    while rest:
        option = rest.pop(0)
        if option in given and rest:
            given[option] = rest.pop(0)
        elif option == "-exec":
            ends = [index for index, word in enumerate(rest) if word in (";", "\\;", "+")]
            end = ends[0] if ends else len(rest)
            if rest[:end] not in (["cat", "{}"], ["echo", "@{}"]):
                return None
            rest = rest[end + 1 :]
        elif option == "-printf" and rest[:1] == ["@%p\\n"]:
            rest = rest[1:]
        elif option not in ("-print", "-print0", "-L", "-follow"):
            return None
    depths = [given["-mindepth"], given["-maxdepth"]]
    if given["-type"] != "f" or not all(one.isascii() and one.isdecimal() for one in depths):
        return None
    first, last = max(1, int(depths[0][:4])), min(_FIND_DEPTH, int(depths[1][:4]))
    return [
        os.path.join(folder, *["*"] * (level - 1), given["-name"])
        for folder in folders
        for level in range(first, last + 1)
    ] or None
