"""Commands of a job that run on the director's machine, before and after it.

A command is split into words as a shell would, but no shell reads it. In it `%c` means the
client, `%d` the director, `%e` the state of the run, `%i` its id, `%j` job and id, `%l` the level,
`%n` the job, `%t` the kind, `%b` bytes, `%f` the FileSet, `%F` files, `%p` the pool, `%w` the
storage, `%%` a percent sign. What it prints goes to the run's log.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable
from typing import Final

from strongroom.base.errors import ScriptError
from strongroom.director.results.runs import Run

SCRIPT_SECONDS: Final = 3600.0
_MOST_OUTPUT_BYTES: Final = 256 << 10
_KILL_SECONDS: Final = 5.0


def filled(command: str, record: Run, director: str) -> list[str]:
    """The words of a command with its placeholders replaced. Raises ScriptError."""
    values = {
        "%": "%",
        "b": str(record.bytes),
        "c": record.client,
        "d": director,
        "e": record.state,
        "f": record.fileset,
        "F": str(record.files),
        "i": record.id,
        "j": f"{record.job}.{record.id}",
        "l": record.level,
        "n": record.job,
        "p": record.pool,
        "t": record.kind,
        "w": record.storage,
    }
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ScriptError(f"the command {command!r} cannot be split into words: {error}") from error
    if not words:
        raise ScriptError("a script has an empty command")
    # Replaced within each word, so that a name with blanks stays one word.
    return [re.sub("%(.)", lambda m: values.get(m[1], m[0]), word) for word in words]


async def run_command(
    words: list[str], say: Callable[[str, str], Awaitable[None]], *, seconds: float = SCRIPT_SECONDS
) -> None:
    """Run a command; its output is logged by line. Raises ScriptError unless it exits with 0."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        )
    except OSError as error:
        raise ScriptError(f"cannot run {words[0]}: {error.strerror}") from error
    assert process.stdout is not None
    try:
        output = await asyncio.wait_for(_read(process.stdout), seconds)
        code = await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError as error:
        raise ScriptError(f"{words[0]} took longer than {seconds:.0f} s and was ended") from error
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.wait_for(process.wait(), _KILL_SECONDS)
    for line in output.decode("utf-8", "backslashreplace").splitlines():
        await say("info", f"{os.path.basename(words[0])}: {line}")
    if code:
        raise ScriptError(f"{words[0]} ended with code {code}")


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Read all output, of which the first part is kept."""
    kept = bytearray()
    while part := await stream.read(64 << 10):
        kept += part[: max(0, _MOST_OUTPUT_BYTES - len(kept))]
    return bytes(kept)
