"""What is wrong, as `status` shows it before anything else."""

from __future__ import annotations

from collections.abc import Sequence

from strongroom.base.printable import printable
from strongroom.cli.client.view import ApiObject, local_time
from strongroom.cli.terminal import Terminal


def write_problems(terminal: Terminal, problems: Sequence[ApiObject]) -> None:
    """A line for each problem, errors first, in colour on a terminal; and what to do."""
    if terminal.as_json or terminal.quiet:
        return
    if not problems:
        terminal.styled((("mark", "everything is OK"), ("", "\n")))
    for one in problems:
        since = local_time(one["since"])
        pieces = [
            (
                one["severity"] if one["severity"] == "error" else "warning",
                f"{printable(one['severity'])}:",
            ),
            ("bold", f" {printable(one['title'])}"),
            ("", f", since {since}\n"),
        ]
        if one["detail"]:
            pieces.append(("", f"    {printable(one['detail'])}\n"))
        if one["remedy"]:
            pieces.append(("", f"    {printable(one['remedy'])}\n"))
        terminal.styled(pieces)


def unreported_endings(status: ApiObject) -> list[ApiObject]:
    """Certificates and tokens that end soon, where no problem is about one.

    What is about no job, client or storage is a problem for callers with all rights only.
    """
    if any(one["event"].startswith(("certificate-", "token-")) for one in status["problems"]):
        return []
    return [one for one in status["expiries"] if one["soon"]]
