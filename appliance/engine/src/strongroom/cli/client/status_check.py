"""`strongroom status --check`: one line and an exit code, as plugins of Nagios write them.

    STRONGROOM CRITICAL - 1 error, 1 warning: job nightly failed; ... | errors=1 warnings=1 ...

The codes are those of such plugins, not of other commands: OK 0, WARNING 1, CRITICAL 2, UNKNOWN 3.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from strongroom.base.errors import StrongroomError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted
from strongroom.cli.client.view import ApiObject, unreported_endings
from strongroom.cli.terminal import Terminal

OK: Final = 0
WARNING: Final = 1
CRITICAL: Final = 2
UNKNOWN: Final = 3
_WORDS: Final = {OK: "OK", WARNING: "WARNING", CRITICAL: "CRITICAL", UNKNOWN: "UNKNOWN"}
# Pagers and mobile phones show a line of this length.
_LONGEST: Final = 400


def check_status(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write the line; gives the exit code. Raises OutputClosedError only."""
    try:
        from strongroom.cli.client.client import PAGE_SIZE, open_director

        with open_director(arguments) as director:
            status = director.get("/status", limit=PAGE_SIZE)
    except (StrongroomError, OSError) as error:
        return tell_unknown(terminal, str(error))
    errors = sum(one["severity"] == "error" for one in status["problems"])
    endings = unreported_endings(status)
    warnings = len(status["problems"]) - errors + len(status["warnings"]) + len(endings)
    code = CRITICAL if errors else WARNING if warnings else OK
    texts = [one["title"] for one in status["problems"]] + list(status["warnings"])
    texts += [f"{one['kind']} {one['name']} ends on {one['ends'][:10]}" for one in endings]
    counts = ", ".join(
        counted(count, word) for count, word in ((errors, "error"), (warnings, "warning")) if count
    )
    connected = f"{status['clients_connected']} of {status['clients']} clients connected"
    text = f"{counts}: {'; '.join(texts)}" if texts else f"nothing is wrong, {connected}"
    return _tell(terminal, code, text, _figures(status, errors, warnings))


def tell_unknown(terminal: Terminal, why: str) -> int:
    """Write that nothing is known, for whatever reason; gives the exit code."""
    code = _tell(terminal, UNKNOWN, why, {})
    terminal.flush()
    return code


def _figures(status: ApiObject, errors: int, warnings: int) -> dict[str, str]:
    """Performance data: value, then thresholds and bounds where there are any."""
    states = [one["state"] for one in status["active"]]
    return {
        "errors": f"{errors};;0;0",
        "warnings": f"{warnings};0;;0",
        "running": f"{states.count('running')};;;0",
        "waiting": f"{len(states) - states.count('running')};;;0",
        "clients_connected": f"{status['clients_connected']};;;0;{status['clients']}",
    }


def _tell(terminal: Terminal, code: int, text: str, figures: Mapping[str, str]) -> int:
    # What is behind a bar is taken for figures.
    shown = printable(" ".join(text.split())).replace("|", "/")
    if len(shown) > _LONGEST:
        shown = shown[: _LONGEST - 3] + "..."
    if terminal.as_json:
        terminal.emit({"type": "status_check", "state": _WORDS[code], "message": shown})
        return code
    data = " ".join(f"{name}={value}" for name, value in figures.items())
    terminal.word(f"STRONGROOM {_WORDS[code]} - {shown}" + (f" | {data}" if data else ""))
    return code
