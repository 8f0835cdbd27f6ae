"""What a FileSet keeps, against a slow matcher, and where that one cannot go."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engine.filesets.reference import decides, fits_glob, kept
from engine.filesets.walk import rules_of, walked
from strongroom.base.errors import UsageError
from strongroom.engine.filesets.blocks import PathGlobs, treatments
from strongroom.engine.filesets.exclusions import Judgement
from strongroom.engine.filesets.posix_regex import PosixRegex
from strongroom.engine.filesets.resolve import resolve_fileset
from strongroom.engine.filesets.rules import FileSetSelection
from strongroom.engine.filesets.spec import FileSetInclude, FileSetOptions, FileSetSpec
from strongroom.engine.scan.directory import stat_rows

NAMES = ("a", "B", "c.tmp", "D.TMP", ".nobackup", "ab", "[x", "é")
SIZES = (0, 5, 50)
TOP = "/top"  # means the tree in patterns until it is there


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three levels of directories that each hold some of NAMES, and files of three sizes."""
    top = tmp_path_factory.mktemp("fileset").resolve() / "t"
    top.mkdir()
    for number, name in enumerate(NAMES):
        (top / name).write_bytes(bytes(SIZES[number % 3]))
    for first in ("d", "E", "e.tmp"):
        for second in ("d", "f", "marked"):
            folder = top / first / second / "d"
            folder.mkdir(parents=True)
            for number, name in enumerate(NAMES):
                if name != ".nobackup" or second == "marked":
                    (folder.parent / name).write_bytes(bytes(SIZES[number % 3]))
                    (folder / name).write_bytes(bytes(SIZES[(number + 1) % 3]))
    (top / "link").symlink_to("d")
    return top


steps = st.sampled_from((*NAMES, "d", "E", "e.tmp", "f", "marked", "link"))
pieces = st.one_of(
    steps, st.sampled_from(("*", "?", "[ab]", "[!a]", "*.tmp", "\\a", "[", "a*", "**"))
)
patterns = st.one_of(
    st.builds("/".join, st.lists(pieces, min_size=1, max_size=3)).map(lambda text: f"{TOP}/{text}"),
    st.builds("/".join, st.lists(pieces, min_size=1, max_size=2)).map(lambda text: f"*/{text}"),
    st.builds("".join, st.lists(pieces, min_size=1, max_size=3)),
)
regexes = st.sampled_from(
    ("tmp$", "/d/", "^/[^d]*$", "(a|B)$", "e\\.tmp/(d|f)$", "x{2}|ab", "[.]", "/[A-Z]$", "d/?$")
)
few = st.lists(patterns, max_size=2).map(tuple)
few_regexes = st.lists(regexes, max_size=1).map(tuple)
bounds = st.sampled_from((None, None, None, 5, 6, 49, 50))
blocks = st.builds(
    FileSetOptions,
    exclude=st.booleans(),
    wild=few,
    wild_dir=few,
    wild_file=few,
    regex=few_regexes,
    regex_dir=few_regexes,
    regex_file=few_regexes,
    ignore_case=st.booleans(),
    enhanced_wild=st.booleans(),
    compression=st.sampled_from((None, "none", "gzip6", "lz4")),
    recurse=st.sampled_from((True, True, True, False)),
    smallest_bytes=bounds,
    largest_bytes=bounds,
)
roots = st.lists(
    st.sampled_from((TOP, f"{TOP}/d", f"{TOP}/E/d", f"{TOP}/d/d/a", f"{TOP}/e.tmp/f/d")),
    min_size=1, max_size=2, unique=True,
).map(tuple)  # fmt: skip
includes = st.builds(
    FileSetInclude,
    files=roots,
    options=st.lists(blocks, max_size=3).map(tuple),
    exclude_dir_containing=st.sampled_from(((), (), (".nobackup",))),
)
specs = st.builds(
    FileSetSpec,
    name=st.just("any"),
    includes=st.lists(includes, min_size=1, max_size=2).map(tuple),
    excludes=few,
)


def placed(spec: FileSetSpec, tree: Path) -> FileSetSpec:
    """The FileSet with patterns and paths of the real tree."""
    text = msgspec.json.encode(spec).decode().replace(TOP, str(tree))
    return msgspec.json.decode(text, type=FileSetSpec)


def with_ways(paths: set[str], outermost: set[str]) -> set[str]:
    """The paths, and the directories that lead to them from the outermost ones."""
    found = set(paths)
    for path in paths:
        above = os.path.dirname(path)
        while any(above == top or above.startswith(top + "/") for top in outermost):
            found.add(above)
            above = os.path.dirname(above)
    return found


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec=specs)
def test_it_keeps_what_the_slow_matcher_keeps(spec: FileSetSpec, tree: Path) -> None:
    spec = placed(spec, tree)
    names = {name for include in spec.includes for name in include.files}
    tops = {
        name for name in names if not any(name.startswith(other + "/") for other in names - {name})
    }
    assert set(walked(spec)) == with_ways(kept(spec), tops)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec=specs)
def test_entries_are_treated_as_the_block_that_decides_says(spec: FileSetSpec, tree: Path) -> None:
    spec = placed(spec, tree)
    (include, *_) = spec.includes
    spec = FileSetSpec(name="any", includes=(include,), excludes=spec.excludes)
    table = treatments(spec)
    for path, number in walked(spec).items():
        if path in include.files or any(name.startswith(path + "/") for name in include.files):
            continue
        is_directory = os.path.isdir(path) and not os.path.islink(path)
        options = decides(spec, include, path, is_directory=is_directory)
        expected = options.compression if isinstance(options, FileSetOptions) else None
        assert table[number].compression == expected, path


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("/[a/b]", b"/a", True),
        ("/[a/b]", b"/[a/b]", False),
        ("/[+-9]x", b"//x", False),
        ("/[!b/]", b"/a", True),
        ("/[a/b", b"/[a/b", True),
    ],
)
def test_a_slash_in_a_set_does_not_end_the_set_and_fits_no_slash(
    pattern: str, text: bytes, fits: bool
) -> None:
    prefix, name = os.path.split(text)
    globs = PathGlobs([pattern], ignores_case=False, crosses_slashes=False)
    found = globs.fits(prefix if prefix.endswith(b"/") else prefix + b"/", [name])
    assert (found or [False]) == [fits]


@settings(max_examples=2000)
@given(
    pattern=st.text(st.sampled_from("ab/*?[]!\\-."), min_size=1, max_size=8),
    text=st.text(st.sampled_from("ab/.*"), max_size=6),
    crosses=st.booleans(),
    folds=st.booleans(),
)
def test_patterns_match_as_the_c_library_does(
    pattern: str, text: str, crosses: bool, folds: bool
) -> None:
    # What POSIX leaves open: a backslash at the end, and what is in sets that are odd.
    assume(not re.search(r"\\$|\[[^\]]*[\\\[-]|\[[!^]?\]", pattern) and "//" not in "/" + text)
    # glibc does not see an escaped slash behind a star, where it looks for one.
    assume(crosses or not re.search(r"\*[^/]*\\/", pattern))
    library = ctypes.CDLL(None)
    flags = (0 if crosses else 1) | (16 if folds else 0)
    path = b"/" + text.encode()
    glob = pattern.encode()
    expected = library.fnmatch(ctypes.c_char_p(glob), ctypes.c_char_p(path), flags) == 0
    prefix, name = os.path.split(path)
    found = PathGlobs([pattern], ignores_case=folds, crosses_slashes=crosses).fits(
        prefix.rstrip(b"/") + b"/", [name]
    )
    assert (found == [True]) == expected
    assert fits_glob(pattern, path.decode(), whole_path=not crosses, ignores_case=folds) == expected


def test_regular_expressions_are_those_of_posix() -> None:
    def fits(pattern: str, text: str, *, ignores_case: bool = False) -> bool:
        return PosixRegex(pattern.encode(), ignores_case=ignores_case).fits(text.encode())

    assert fits("^/home/[[:alpha:]_]+/", "/home/ann_b/file")
    assert fits("[]x]", "a]b")
    assert fits("[\\]", "back\\slash")
    assert fits("(tmp|BAK)$", "/x.bak", ignores_case=True)
    assert not fits("(tmp|BAK)$", "/x.bak")
    assert fits("a{2,3}$", "/baaa")
    with pytest.raises(UsageError):
        PosixRegex(b"(", ignores_case=False)


def one_include(top: Path, *options: FileSetOptions, **more: tuple[str, ...]) -> FileSetSpec:
    include = FileSetInclude(files=(str(top),), options=options, **more)
    return FileSetSpec(name="one", includes=(include,))


def names_of(spec: FileSetSpec, top: Path) -> set[str]:
    return {os.path.relpath(path, top) for path in walked(spec)} - {"."}


def test_patterns_see_the_path_as_the_fileset_gives_it(tmp_path: Path) -> None:
    real = tmp_path.resolve() / "real"
    (real / "sub").mkdir(parents=True)
    (real / "sub" / "file").touch()
    (tmp_path / "link").symlink_to("real")
    given_path = f"{tmp_path}/link/sub"
    options = FileSetOptions(exclude=True, wild_file=(f"{given_path}/file",))
    spec = FileSetSpec(
        name="linked", includes=(FileSetInclude(files=(given_path,), options=(options,)),)
    )
    resolved = resolve_fileset(spec)
    assert resolved.source.paths() == (os.fsencode(real / "sub").strip(b"/"),)
    selection = FileSetSelection(resolved.rules, tells_treatments=False)
    flat, _ = stat_rows([os.fsencode(real / "sub" / "file")])
    assert selection.judge(*resolved.source.paths(), [b"file"], flat).kept == [False]


def test_files_and_directories_that_are_not_to_be_dumped_stay_out(tmp_path: Path) -> None:
    for name in ("kept", "marked", "d/inside"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    done = subprocess.run(
        ["chattr", "+d", tmp_path / "marked", tmp_path / "d"], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("this file system has no such flag")
    assert names_of(one_include(tmp_path, FileSetOptions(honor_no_dump=True)), tmp_path) == {"kept"}
    assert "marked" in names_of(one_include(tmp_path, FileSetOptions()), tmp_path)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A tree with a tmpfs mounted in it."""
    top = tmp_path.resolve() / "top"
    for name in ("a/inside", "mounted/hidden"):
        (top / name).parent.mkdir(parents=True)
        (top / name).touch()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "none", top / "mounted"], check=False).returncode
    ):
        pytest.skip("this sandbox does not let us mount")
    (top / "mounted" / "deep").mkdir()
    (top / "mounted" / "deep" / "other").touch()
    yield top
    subprocess.run(["umount", top / "mounted"], check=True)


INSIDE = {"mounted/deep", "mounted/deep/other"}
OUTSIDE = {"a", "a/inside", "mounted"}


def test_other_file_systems_are_entered_when_told_only(mounted: Path) -> None:
    def names(**options: Any) -> set[str]:
        return names_of(one_include(mounted, FileSetOptions(**options)), mounted)

    assert names() == OUTSIDE
    assert names(one_file_system=False) == OUTSIDE | INSIDE
    assert names(one_file_system=False, file_system_types=("ext4", "tmpfs")) == OUTSIDE | INSIDE
    assert names(one_file_system=False, file_system_types=("ext4",)) == OUTSIDE


def test_the_file_system_option_is_that_of_the_block_that_decides(mounted: Path) -> None:
    crossing = FileSetOptions(wild_dir=("*/mounted",), one_file_system=False)
    spec = one_include(mounted, crossing, FileSetOptions())
    assert names_of(spec, mounted) == OUTSIDE | INSIDE


def test_a_path_that_is_named_is_entered_wherever_it_lies(mounted: Path) -> None:
    named = (str(mounted), str(mounted / "mounted" / "deep"))
    spec = FileSetSpec(name="both", includes=(FileSetInclude(files=named),))
    assert names_of(spec, mounted) == OUTSIDE | INSIDE


def test_a_path_on_a_file_system_that_is_not_listed_is_left_out(mounted: Path) -> None:
    options = FileSetOptions(file_system_types=("tmpfs",))
    files = (str(mounted / "mounted"), "/proc/self")
    include = FileSetInclude(files=files, options=(options,))
    resolved = resolve_fileset(FileSetSpec(name="tmpfs", includes=(include,)))
    assert [root.given for root in resolved.rules.roots] == [os.fsencode(mounted / "mounted")]
    assert "FsType" in resolved.notes[0]
    assert not resolved.problems


def test_a_fileset_without_patterns_keeps_a_directory_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selection = FileSetSelection(rules_of(one_include(tmp_path)), tells_treatments=False)
    names = [b"%d" % number for number in range(1000)]
    for name in names:
        (tmp_path / name.decode()).touch()
    monkeypatch.chdir(tmp_path)
    flat, _ = stat_rows(names)
    judged = selection.judge(os.fsencode(tmp_path).strip(b"/"), names, flat)
    assert judged == Judgement(None, frozenset(), None)
