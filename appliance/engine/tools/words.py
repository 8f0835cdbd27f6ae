"""Finds words that CONTRIBUTING.md replaces: in messages, help, docs, comments and names.

The table `use | not` of CONTRIBUTING.md is the only list: each text in code font in the column
`not` is a regular expression, which matches at the bounds of words, whatever the case, across line
ends, and in names of code (`is_mended` is read as `is fixed`). `allowed_words.txt` beside this
file has the exceptions, each with its reason. Run by `make lint` and by tests/documents.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).resolve().parents[3]
_PROSE: Final = (".md", ".yml", ".j2", ".html", ".sh", ".conf", ".service", ".timer", ".js", ".css")
_LEFT_OUT: Final = re.compile(
    r"^(CHANGELOG\.md|CONTRIBUTING\.md|appliance/engine/tools/|appliance/engine/tests/documents/test_words|appliance/engine/bench/results/)"
    r"|/golden/|/corpus/"
)
_STRINGS: Final = {tokenize.STRING} | {
    getattr(tokenize, name) for name in ("FSTRING_MIDDLE",) if hasattr(tokenize, name)
}


@dataclass(frozen=True)
class Rule:
    """What to use, and what not; `pattern` is the text between the code marks."""

    use: str
    pattern: str
    regex: re.Pattern[str]


@dataclass(frozen=True)
class Finding:
    """A match; `kind` is message, comment, docs or name."""

    path: str
    line: int
    kind: str
    rule: Rule
    text: str


def _compiled(pattern: str) -> re.Pattern[str]:
    """A blank matches the end of a line too, but within a look behind."""
    parts = re.split(r"(\(\?<![^)]*\))", pattern)
    spaced = "".join(one if one.startswith("(?<") else one.replace(" ", r"\s+") for one in parts)
    return re.compile(rf"\b(?:{spaced})\b", re.IGNORECASE)


def rules(text: str) -> list[Rule]:
    """Those of the table in CONTRIBUTING.md."""
    _, _, table = text.partition("| use | not |")
    table, _, _ = table.partition("\n\n")
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    return [
        Rule(use, one, _compiled(one))
        for use, wrong in rows
        for one in re.findall(r"`([^`]+)`", wrong.replace(r"\|", "|"))
    ]


def allowed(text: str) -> list[tuple[re.Pattern[str], str]]:
    """Paths and patterns of `allowed_words.txt`; a line without a reason is an error."""
    found = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        path, pattern, reason = (part.strip() for part in line.split("  ", 2))
        assert reason, line
        found.append((re.compile(path), pattern))
    return found


def texts(path: str, source: str) -> Iterator[tuple[int, str, str]]:
    """Line, kind and text of all that people read in a file."""
    if not path.endswith(".py"):
        yield (
            1,
            "docs" if path.endswith(".md") else "message",
            re.sub(r"\n[ \t]*#+ ?", "\n", source),
        )
        return
    run: list[str] = []
    kind, begin = "", 1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        now = (
            "comment" if token.type == tokenize.COMMENT
            else "message" if token.type in _STRINGS
            else "" if token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
            else kind
        )  # fmt: skip
        if now != kind:
            if run:
                yield begin, kind, "\n".join(run)
            run, kind, begin = [], now, token.start[0]
        if now and token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            text = token.string.lstrip("#:") if now == "comment" else token.string
            run += [""] * (token.start[0] - begin - len(run)) + text.split("\n")
        if token.type == tokenize.NAME and not _is_test(path):
            words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", token.string).replace("_", " ").strip()
            if " " in words or len(words) > 3:
                yield token.start[0], "name", words
    if run:
        yield begin, kind, "\n".join(run)


def _is_test(path: str) -> bool:
    return "/tests/" in path or path.startswith(("tests/", "molecule/"))


def findings(top: Path = TOP) -> Iterator[Finding]:
    """All matches in the tracked files, but for the exceptions."""
    table = rules((top / "CONTRIBUTING.md").read_text())
    exceptions = allowed((top / "appliance/engine/tools/allowed_words.txt").read_text())
    listed = subprocess.run(
        ["git", "ls-files"], cwd=top, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    for path in listed:
        file = top / path
        if not path.endswith((".py", *_PROSE)) or _LEFT_OUT.search(path) or file.is_symlink():
            continue
        if not file.is_file():
            continue
        spared = {pattern for where, pattern in exceptions if where.search(path)}
        for line, kind, text in texts(path, file.read_text()):
            for rule in table:
                if rule.pattern in spared:
                    continue
                for match in rule.regex.finditer(text):
                    yield Finding(
                        path, line + text.count("\n", 0, match.start()), kind, rule, match.group(0)
                    )


def main() -> int:
    """Print what was found, or with --count how often each rule matched in which kind of text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", action="store_true", help="only count")
    found = list(findings())
    if parser.parse_args().count:
        counts = Counter((one.rule.pattern, one.kind) for one in found)
        for pattern in sorted({one.rule.pattern for one in found}):
            shown = [
                f"{counts[pattern, kind]:6}" for kind in ("message", "docs", "comment", "name")
            ]
            print(*shown, pattern)
        return 0
    for one in found:
        print(f"{one.path}:{one.line}: {one.text!r}: use {one.rule.use}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
