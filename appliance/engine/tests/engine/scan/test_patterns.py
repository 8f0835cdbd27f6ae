"""Patterns match what their page of the manual says, and nothing else."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strongroom.base.errors import UsageError
from strongroom.engine.scan.globs import fold_case, translate_glob
from strongroom.engine.scan.patterns import Patterns, read_pattern_file


def matches(
    patterns: list[bytes], path: bytes, *, is_directory: bool = False, ignores_case: bool = False
) -> bool:
    directory, _, name = path.rpartition(b"/")
    asked = Patterns([(one, ignores_case) for one in patterns]).for_directory(directory)
    return asked is not None and asked.match([name], [is_directory]) == [True]


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b"*.o", b"a/b.o"),
        (b"*.o", b".o"),
        (b"core", b"deep/down/core"),
        (b"/proc", b"proc"),
        (b"/a/*.o", b"a/b.o"),
        (b"a/*.o", b"x/y/a/b.o"),
        (b"a/**/z", b"a/z"),
        (b"a/**/z", b"q/a/b/c/z"),
        (b"**/z", b"z"),
        (b"**/z", b"a/b/z"),
        (b"/foo/**", b"foo/x"),
        (b"/foo/**", b"foo/y/x"),
        (b"/foo/**/", b"foo/y"),
        (b"/home/*/.cache", b"home/ann/.cache"),
        (b"//double//slash", b"double/slash"),
        (b"./here", b"here"),
        (b"?", b"a"),
        (b"?", "é".encode()),
        (b"?", b"\xff"),
        (b"?", b"\n"),
        (b"a\nb*", b"a\nb\nc"),
        (b"[a-c]x", b"bx"),
        (b"[!a-c]x", b"dx"),
        (b"[^a-c]x", b"dx"),
        (b"[]]", b"]"),
        (b"[!]]", b"x"),
        (b"[a-]", b"-"),
        (b"[[:digit:][:upper:]]", b"Q"),
        (b"[\\]]", b"]"),
        ("[é€]x".encode(), "€x".encode()),
        ("[!é]".encode(), "è".encode()),
        (b"a*b*c", b"aXbYbZc"),
        (b"*a*", b"xxaxx"),
        (b"a**b", b"axxb"),
        (b"\\*", b"*"),
        (b"\\!important", b"!important"),
        (b"\\#sharp", b"#sharp"),
        (b"tail\\", b"tail\\"),
        (b"\xff*", b"\xff\xfe"),
        (b"a.b", b"a.b"),
    ],
)
def test_a_pattern_matches(pattern, path):
    assert matches([pattern], path, is_directory=pattern.endswith(b"/"))


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b"*.o", b"a/b.c"),
        (b"/proc", b"x/proc"),
        (b"/a/*.o", b"x/a/b.o"),
        (b"/a/*.o", b"a/x/b.o"),
        (b"a/*.o", b"xa/b.o"),
        (b"/foo/**", b"foo"),
        (b"/foo/**", b"foobar/x"),
        (b"tmp/", b"tmp"),
        (b"?", b"ab"),
        (b"??", "é".encode()),
        (b"[!a-c]x", b"ax"),
        (b"[a-c]", b"d"),
        ("[!é]".encode(), "é".encode()),
        (b"\\*", b"x"),
        (b"a.b", b"axb"),
        (b"Name", b"name"),
        (b"a*b*c", b"aXbYbZcd"),
    ],
)
def test_a_pattern_does_not_match(pattern, path):
    assert not matches([pattern], path)


def test_the_last_pattern_that_matches_decides():
    patterns = [b"*", b"!*.c", b"secret.c"]
    assert matches(patterns, b"k/x.h")
    assert not matches(patterns, b"k/x.c")
    assert matches(patterns, b"k/secret.c")
    assert not matches([b"/home/*", b"!/home/ann"], b"home/ann")
    assert matches([b"/home/*", b"!/home/ann"], b"home/bob")
    assert matches([b"!*.c", b"*"], b"x.c")


def test_a_slash_at_the_end_means_directories_only():
    assert matches([b"build/"], b"a/build", is_directory=True)
    assert not matches([b"build/"], b"a/build")
    assert not matches([b"*", b"!keep/"], b"keep", is_directory=True)
    assert matches([b"*", b"!keep/"], b"keep")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b"*.JPG", b"a.jpg"),
        (b"/Foo/Bar", b"fOO/bAR"),
        ("ÉTÉ*".encode(), "étéx".encode()),
        (b"stra\xc3\x9fe", b"STRASSE"),
    ],
)
def test_case_can_be_left_out_of_account(pattern, path):
    assert matches([pattern], path, ignores_case=True)
    assert not matches([pattern], path)


def test_case_of_bytes_that_are_no_text_is_left_alone():
    assert fold_case(b"\xffA") == b"\xffa"


@pytest.mark.parametrize(
    "pattern", [b"[a", b"[", b"[]", b"x[!]", b"[[:nosuch:]]", b"", b"/", b"!", b"../x", b"a/../b",
                b"[z-a]", "[é-ü]".encode(), b"nul\0"]
)  # fmt: skip
def test_a_pattern_that_cannot_match_is_an_error(pattern):
    with pytest.raises(UsageError):
        Patterns([(pattern, False)])


def simple_glob(pattern: bytes, name: bytes) -> bool:
    """The definition, letter by letter."""
    if not pattern:
        return not name
    if pattern[:1] == b"*":
        return any(simple_glob(pattern[1:], name[cut:]) for cut in range(len(name) + 1))
    return bool(name) and pattern[:1] in (b"?", name[:1]) and simple_glob(pattern[1:], name[1:])


@given(st.text("ab*?", min_size=1, max_size=8), st.text("ab", max_size=8))
@example("*a*b", "abab")
def test_runs_settled_early_match_like_the_definition(pattern, name):
    import re

    found = re.fullmatch(translate_glob(pattern.encode()), name.encode())
    assert (found is not None) == simple_glob(pattern.encode(), name.encode())


def simple_path(parts: list[bytes], path: list[bytes]) -> bool:
    if not parts:
        return not path
    if parts[0] == b"**":
        return any(simple_path(parts[1:], path[cut:]) for cut in range(len(path) + 1))
    return bool(path) and simple_glob(parts[0], path[0]) and simple_path(parts[1:], path[1:])


@given(
    st.lists(st.sampled_from([b"a", b"b", b"**", b"?", b"a*"]), min_size=1, max_size=4).filter(
        lambda parts: parts[-1] != b"**"
    ),
    st.lists(st.sampled_from([b"a", b"b", b"ab"]), min_size=1, max_size=5),
    st.booleans(),
)
def test_paths_match_like_the_definition(parts, path, anchored):
    pattern = b"/" * anchored + b"/".join(parts)
    definition = parts if anchored else [b"**", *parts]
    assert matches([pattern], b"/".join(path)) == simple_path(definition, path)


def test_many_stars_take_no_time():
    started = time.process_time()
    assert not matches([b"*a" * 20 + b"b"], b"a" * 255)
    assert time.process_time() - started < 1


def test_directories_that_no_pattern_speaks_of_are_told():
    patterns = Patterns([(b"/proc/*", False), (b"/var/cache/*.deb", False)])
    assert patterns.for_directory(b"home") is None
    assert patterns.for_directory(b"var/cache") is not None


def test_a_file_of_patterns_is_read_line_by_line(tmp_path):
    file = tmp_path / "patterns"
    file.write_bytes(b"# comment\n\n  *.o  \r\n!keep.o\n\\#sharp\nblank\\ \n\xff*")
    assert read_pattern_file(bytes(file)) == [
        b"*.o",
        b"!keep.o",
        b"\\#sharp",
        b"blank\\ ",
        b"\xff*",
    ]


def test_a_missing_file_of_patterns_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_pattern_file(bytes(tmp_path / "missing"))
