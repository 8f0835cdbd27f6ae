"""What checks CONTRIBUTING.md's list of words finds what it should; `make lint` has it look."""

import importlib.util
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
spec = importlib.util.spec_from_file_location("words", TOOLS / "words.py")
words = importlib.util.module_from_spec(spec)
# Its dataclasses look for it there.
sys.modules["words"] = words
spec.loader.exec_module(words)
TABLE = words.rules((words.TOP / "CONTRIBUTING.md").read_text())


def found(path, source):
    return [
        (kind, match.group(0))
        for _, kind, text in words.texts(path, source)
        for rule in TABLE
        for match in rule.regex.finditer(text)
    ]


def test_messages_comments_documents_and_names_are_searched():
    assert found("src/a.py", 'say(f"{x} is no folder")\n') == [("message", "is no folder")]
    assert found("src/a.py", "# It goes\n# on.\nx = 1\n") == [("comment", "goes\n on")]
    assert found("src/a.py", "def is_mended(): ...\n") == [("name", "mended")]
    assert found("a.md", "For whoever asks.\n") == [("docs", "whoever")]
    assert found("src/a.py", 'say("the file is not a folder")\n') == []


def test_tests_may_be_named_as_they_are():
    assert found("engine/tests/test_a.py", "def test_whoever_asks(): ...\n") == []
