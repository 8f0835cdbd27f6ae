"""What the pages of figures have in common: Markdown tables, units, and where figures stand.

Figures are put between two markers of a page whose other text stays.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

BEGIN = "<!-- figures: written by make bench -->"
END = "<!-- end of figures -->"
MB = 1_000_000


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], to_the_left: Collection[int] = (0,)
) -> str:
    """A Markdown table; the first column or those given to the left, all others to the right."""
    lines = ["| " + " | ".join(header) + " |"]
    marks = ("---" if number in to_the_left else "---:" for number in range(len(header)))
    lines.append("|" + "|".join(marks) + "|")
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"a row of {len(row)} cells under {len(header)} headings")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines)


def seconds_text(seconds: float) -> str:
    """Three significant digits at most, never fewer than the whole seconds."""
    if seconds < 1:
        return f"{seconds:.3f}"
    if seconds < 10:
        return f"{seconds:.2f}"
    return f"{seconds:.1f}"


def megabytes_text(size_bytes: float) -> str:
    """Whole megabytes, with two decimals below ten; nothing for what was not measured."""
    if not size_bytes:
        return ""
    return f"{size_bytes / MB:,.2f}" if size_bytes < 10 * MB else f"{size_bytes / MB:,.0f}"


def put_between_markers(document: str, text: str) -> str:
    """`document` with `text` between the markers; both are appended where they are missing.

    Raises ValueError when only one marker is there or they are in the wrong order.
    """
    if BEGIN not in document and END not in document:
        return f"{document.rstrip()}\n\n{BEGIN}\n\n{text}\n{END}\n"
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document must hold {BEGIN!r} and after it {END!r}")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def write_document(path: Path, text: str, introduction: str) -> None:
    """Put `text` into the page at `path`, which begins with `introduction` when it is new."""
    document = path.read_text() if path.exists() else introduction
    path.write_text(put_between_markers(document, text))
