"""Coverage-guided fuzzing of the configuration language's lexer, grammar and parser.

    python fuzz/fuzz_config.py --seeds DIRECTORY            write a seed corpus
    python fuzz/fuzz_config.py DIRECTORY [libFuzzer options]

The first byte chooses the component and the dialect, the rest is a text. Whatever it is, there is
a tree or an error at a place in the text. A tree without errors can be printed, and what was
printed means the same and prints the same.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["strongroom.config"]):
    from strongroom.config.language.sources import LoadLimits
    from strongroom.config.resolve import resolve
    from strongroom.config.table.dialects import DIALECTS
    from strongroom.config.table.schema import COMPONENTS
    from strongroom.config.trees.loader import LoadOptions, load_text
    from strongroom.config.trees.printer import format_text

NOWHERE = "/nowhere/fuzz.conf"
LIMITS = LoadLimits(file_bytes=100_000, files=10, include_depth=2, statement_tokens=2_000)
# An include of the fuzzer's must not read this machine's files.
ROOT = "/nowhere/root"


def check_text(data: bytes) -> None:
    if not data or b"@" in data:
        return
    component = COMPONENTS[data[0] % len(COMPONENTS)]
    dialect = list(DIALECTS.values())[data[0] // len(COMPONENTS) % len(DIALECTS)]
    options = LoadOptions(dialect=dialect, strict=data[0] >= 128, limits=LIMITS, root=ROOT)
    loaded = load_text(data[1:], component, options, NOWHERE)
    wrong = loaded.diagnostics.has_errors
    resolve(loaded)
    for finding in loaded.diagnostics.sorted():
        _, line, column = finding.place
        assert line >= 1
        assert column >= 1
        finding.render()
    if not wrong:
        text = data[1:].decode("utf-8", "surrogateescape").removeprefix("\ufeff")
        printed = format_text(text, component, dialect, NOWHERE)
        assert format_text(printed, component, dialect, NOWHERE) == printed


def seed_texts() -> list[bytes]:
    """The language cases of the tests, and the files of their example trees."""
    import json

    folder = Path(__file__).parents[1] / "tests" / "config" / "data"
    cases = json.loads((folder / "vectors.json").read_text("utf-8"))["cases"]
    texts = [case["text"].encode() for case in cases]
    texts += [file.read_bytes() for file in sorted(folder.rglob("*.conf"))]
    return [bytes((number,)) + text for text in texts for number in (0, 1, 2, 130)]


def main() -> None:
    if sys.argv[1:2] == ["--seeds"]:
        folder = Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for text in seed_texts():
            (folder / hashlib.sha256(text).hexdigest()[:16]).write_bytes(text)
        return
    atheris.Setup(sys.argv, check_text)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
