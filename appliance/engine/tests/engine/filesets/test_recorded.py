"""Rules in a snapshot come from the client that made it: too expensive ones are refused."""

from __future__ import annotations

import pytest

from strongroom.engine.filesets.posix_regex import is_costly
from strongroom.engine.filesets.recorded import decode_selection, encode_selection
from strongroom.engine.filesets.rules import FileSetRoot, FileSetRules, FileSetSelection
from strongroom.engine.filesets.spec import FileSetInclude, FileSetOptions, FileSetSpec

ORDINARY = (
    r"\.(tmp|bak|~[0-9]+)$", "^/home/[^/]+/\\.cache(/|$)", "[[:digit:]]{4}-[0-9]{2}-[0-9]{2}",
    "^(/a|/b)+/(c+|d*)?$", r"[]\1]+x", "^/srv/(web|db)[0-9]{1,3}/tmp/.*",
)  # fmt: skip
HOSTILE = (
    r"(.*)(.*)\1\2x$", "((a{1,255}){1,255}){1,255}", "(" * 30 + "a" + "+)" * 30, "(" * 1000,
    "a{1,32767}", "a" * 5000,
)  # fmt: skip


def recorded(*regexes: str) -> bytes:
    include = FileSetInclude(options=(FileSetOptions(exclude=True, regex=("x",)),))
    spec = FileSetSpec(name="All", includes=(include,))
    rules = FileSetRules(spec, (FileSetRoot(b"srv", b"/srv", 0),))
    data = encode_selection(FileSetSelection(rules, tells_treatments=False))
    import msgspec

    found = msgspec.msgpack.decode(data)
    found["fileset"]["spec"]["includes"][0]["options"][0]["regex"] = list(regexes)
    return msgspec.msgpack.encode(found)


@pytest.mark.parametrize("pattern", ORDINARY)
def test_what_people_write_is_applied(pattern: str) -> None:
    assert not is_costly(pattern.encode())
    assert decode_selection(recorded(pattern)).selection is not None


@pytest.mark.parametrize("pattern", HOSTILE)
def test_what_may_cost_too_much_is_refused_before_it_is_compiled(pattern: str) -> None:
    with pytest.raises(ValueError, match="too long"):
        decode_selection(recorded(pattern))


def test_so_are_too_many() -> None:
    with pytest.raises(ValueError, match="too long"):
        decode_selection(recorded(*(f"{'a' * 1000}{number}" for number in range(100))))
