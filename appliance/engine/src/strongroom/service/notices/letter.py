"""What people are sent: one condition or several together, in words and as data for webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from strongroom.base.printable import printable
from strongroom.config.values.notice_events import CONDITIONS

# How many incidents one message names.
MOST_TOGETHER = 30
_LONGEST_SUBJECT = 150


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """What a destination is sent. id: the same when it is sent again. severity: the worst.

    notices: data of each incident, none of a report or digest.
    """

    id: str
    director: str
    subject: str
    text: str
    severity: str = "info"
    notices: tuple[dict[str, Any], ...] = ()


def one_line(notice: dict[str, Any]) -> str:
    """The first line about an incident."""
    begin = "resolved" if notice["state"] == "resolved" else notice["severity"]
    # A message of an older version has no such field.
    if notice.get("reminder"):
        begin = f"still {begin}"
    return f"{begin}: {notice['title']}"


def notice_letter(
    letter_id: str, director: str, notices: Sequence[dict[str, Any]], more: int = 0
) -> Letter:
    """A letter about these incidents; more: how many it leaves out."""
    count = len(notices) + more
    subject = one_line(notices[0]) if count == 1 else _together(notices, count)
    parts = [_paragraph(one) for one in notices]
    if more:
        parts.append(f"... and {more} more; see `strongroom notify list`.")
    lasting = {one["severity"] for one in notices if one["state"] == "open"}
    severity = next((one for one in ("error", "warning") if one in lasting), "info")
    return Letter(
        id=letter_id,
        director=director,
        subject=f"[{printable(director)}] {subject}"[:_LONGEST_SUBJECT],
        text="\n\n".join(parts) + "\n",
        severity=severity,
        notices=tuple(notices),
    )


def _together(notices: Sequence[dict[str, Any]], count: int) -> str:
    lasting = [one for one in notices if one["state"] == "open"]
    over = len(notices) - len(lasting)
    errors = sum(one["severity"] == "error" for one in lasting)
    kinds = [
        (errors, "error" if errors == 1 else "errors"),
        (len(lasting) - errors, "warning" if len(lasting) - errors == 1 else "warnings"),
        (over, "resolved"),
        (count - len(notices), "more"),
    ]
    return f"{count} notices: " + ", ".join(f"{number} {word}" for number, word in kinds if number)


def _paragraph(notice: dict[str, Any]) -> str:
    fields = [
        ("", one_line(notice)),
        ("What: ", notice["detail"]),
        ("Since: ", notice["since"]),
        ("Until: ", notice["until"]),
        ("What to do: ", "" if notice["state"] == "resolved" else notice["remedy"]),
        ("Ends with: ", "" if notice["state"] == "resolved" else _ends(notice["event"])),
        ("Incident: ", f"{notice['incident']} ({notice['event']})"),
    ]
    return "\n".join(name + value for name, value in fields if value)


def _ends(event: str) -> str:
    kind = CONDITIONS.get(event)
    # A message of another version may wait.
    return "" if kind is None else kind.ends.replace("`", "")
