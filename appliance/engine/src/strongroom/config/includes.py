"""What an `@` in a configuration means: a file, several files, or a command that is not run.

`@path` is one file, which must be there. A path with `*` or `?` is as many files as match, none
included, and they are read in reverse order of their names, as Bareos does: its default catalog is
the first one read. `@|command` runs nothing unless commands are allowed; the shell idioms that
sites use to read a folder are recognised and done as patterns.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import subprocess
from dataclasses import dataclass

COMMAND_SECONDS = 30
_FOR_LOOP = re.compile(
    r"""^\s*for\s+(?P<variable>[A-Za-z_]\w*)\s+in\s+(?P<patterns>[^;|&$`()<>]+?)\s*;\s*do\s+
    (?:echo|printf\s+'?"?%s\\n"?'?)\s+["']?@["']?\\?\$\{?(?P=variable)\}?["']?\s*;?\s*done\s*;?\s*$""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"^[^$`&;<>()|!{}\\]+$")
_SED_PREFIX = re.compile(r"^sed\s+(?:-e\s+)?['\"]?s(?P<mark>[^\w\s])\^(?P=mark)@(?P=mark)g?['\"]?$")


@dataclass(frozen=True, slots=True)
class IncludeTarget:
    """An `@` taken apart: exactly one of `path`, `command` is not empty."""

    path: str = ""
    command: str = ""


def target_of(text: str) -> IncludeTarget:
    """Take apart an include as the lexer found it, `@` and quotes and all."""
    body = text[1:]
    is_command = body.startswith("|")
    before, quote, after = body.removeprefix("|").partition('"')
    if quote:
        after = re.sub(r"\\(.)", r"\1", after.removesuffix('"'), flags=re.DOTALL)
    return (
        IncludeTarget(command=before + after) if is_command else IncludeTarget(path=before + after)
    )


def is_pattern(path: str) -> bool:
    """Whether `path` names as many files as match."""
    return "*" in path or "?" in path


def files_matching(pattern: str) -> list[str]:
    """The files that match, in the order they are read: the last name first."""
    return sorted(glob.glob(pattern.replace("[", "[[]")), reverse=True)


def patterns_of_command(command: str) -> list[str] | None:
    """The patterns that stand for `command`, if it only lists or prints configuration files.

    Known are `cat` of patterns, a `for` loop that echoes `@file`, `find` by name with `-exec cat`
    or `echo @`, and `ls` or `find` whose output `sed` puts an `@` before; in `sh -c` or not.
    None for any other command.
    """
    command = command.strip()
    unwrapped = _unwrapped_shell(command)
    if unwrapped is not None:
        command = unwrapped.strip()
    loop = _FOR_LOOP.match(command)
    if loop:
        return loop["patterns"].split()
    first, bar, second = command.partition("|")
    if bar:
        second = second.strip()
        if _SED_PREFIX.match(second) and first.split()[:1] in (["find"], ["ls"]):
            return _listed(first)
        if second in ("xargs cat", "xargs -r cat") and first.split()[:1] in (["find"], ["ls"]):
            return _listed(first)
        return None
    words = _words(command)
    if not words:
        return None
    if words[0] in ("cat", "/bin/cat", "/usr/bin/cat"):
        paths = [word for word in words[1:] if not word.startswith("-")]
        return paths if _PLAIN.match(command) and paths else None
    if words[0] in ("find", "/usr/bin/find"):
        return _found(words)
    return None


def run_command(command: str, limit_bytes: int) -> bytes:
    """The output of `command`, as a shell would run it; only where the caller allowed commands.

    Raises OSError when it fails, takes longer than COMMAND_SECONDS or writes over `limit_bytes`.
    """
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(110, f"took longer than {COMMAND_SECONDS} s", command) from error
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OSError(5, f"exit status {done.returncode} {reason[-1] if reason else ''}", command)
    if len(done.stdout) > limit_bytes:
        raise OSError(27, f"wrote more than {limit_bytes} bytes", command)
    return done.stdout


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
    words = _words(command)
    if not words or not _PLAIN.match(command):
        return None
    if words[0] == "find":
        return _found(words)
    paths = [word for word in words[1:] if not word.startswith("-")]
    return [path if is_pattern(path) else os.path.join(path, "*") for path in paths] or None


def _found(words: list[str]) -> list[str] | None:
    """Patterns for `find FOLDER... [-type f] [-name PATTERN] [-print | -exec cat/echo @{} ;]`."""
    folders: list[str] = []
    name = "*"
    depth: int | None = None
    rest = words[1:]
    while rest and not rest[0].startswith("-"):
        folders.append(rest.pop(0))
    while rest:
        option = rest.pop(0)
        if option in ("-type", "-name", "-maxdepth", "-mindepth") and rest:
            argument = rest.pop(0)
            if option == "-name":
                name = argument
            elif option == "-maxdepth" and argument.isdecimal():
                depth = min(int(argument), 8)
            elif option == "-type" and argument != "f":
                return None
        elif option == "-exec":
            end = next(
                (index for index, word in enumerate(rest) if word in (";", "\\;", "+")), None
            )
            action = rest[:end] if end is not None else []
            if action not in (["cat", "{}"], ["echo", "@{}"]):
                return None
            rest = rest[(end or 0) + 1 :]
        elif option not in ("-print", "-L", "-follow"):
            return None
    depths = range(1, (depth or 3) + 1)
    return [
        os.path.join(folder, *["*"] * (level - 1), name) for folder in folders for level in depths
    ] or None
