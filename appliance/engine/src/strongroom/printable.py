"""Names and texts from outside, escaped for display: on a terminal, in a log, in a message.

A file name, or text from a peer, may hold control characters that drive a terminal or forge lines
of a log. Everything that is shown passes through here.
"""

from __future__ import annotations


def printable(name: bytes | str, most: int | None = None) -> str:
    """`name` with bytes that are not UTF-8 and characters that do not print as escapes.

    most: how many characters the result may have, None for any number.
    """
    text = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
    if most is not None:
        text = text[:most]
    if text.isprintable():
        return text
    escaped = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )
    return escaped if most is None else escaped[:most]
