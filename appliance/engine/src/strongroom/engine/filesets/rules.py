"""What a FileSet keeps, compiled for the walker: entries to keep, to enter, and how to store.

Every Include judges what is below its own paths, and an entry is kept when one of them keeps it.
If paths of several Includes are nested, the innermost decides how it is stored. A path of an
Include is kept and entered whatever the patterns, as are the directories that lead to it.

A directory that is left out has no row and is not entered. One that is not entered (another file
system, no recursion) keeps its own row. Directories that hold a marker are left out altogether.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from strongroom.engine.filesets.blocks import (
    EXCLUDED,
    USUAL_OPTIONS,
    IncludeBlocks,
    PathGlobs,
    treatments,
    usual_block,
)
from strongroom.engine.filesets.exclusions import Judgement
from strongroom.engine.filesets.spec import (
    FileSetInclude,
    FileSetOptions,
    FileSetSpec,
)
from strongroom.engine.rows.left_out import EXCLUDED as EXCLUDED_BY_STATE
from strongroom.engine.rows.left_out import MARKED
from strongroom.engine.rows.rows import COLUMN_COUNT, DEVICE, MODE, SIZE
from strongroom.engine.rows.views import join_path, path_key, split_path
from strongroom.engine.scan.attributes import read_flags_of
from strongroom.engine.scan.directory import fitting_columns
from strongroom.engine.scan.mounts import file_system_type, lies_below

NO_DUMP_FLAG: Final = 0x40
_ROOT_NAME: Final = b"."
_REACHED_LIMIT: Final = 1 << 16


class FileSetRoot(msgspec.Struct, frozen=True):
    """A path of an Include.

    path: relative to "/", links on the way resolved; b"" for "/". given: in the FileSet's notation;
    patterns are compared with both. include: number of its Include.
    """

    path: bytes
    given: bytes
    include: int

    def prefixes_of(self, directory: bytes) -> tuple[bytes, ...]:
        """The path of a directory below it as compared with patterns, and a slash; each way."""
        rest = directory[len(self.path) :].strip(b"/")
        tail = b"/" + (rest + b"/" if rest else b"")
        ways = (self.given.rstrip(b"/"), (b"/" + self.path).rstrip(b"/"))
        return tuple(way + tail for way in dict.fromkeys(ways))


class FileSetRules(msgspec.Struct, frozen=True):
    """A FileSet whose paths were looked up on this machine."""

    spec: FileSetSpec
    roots: tuple[FileSetRoot, ...]


class _Verdict(NamedTuple):
    """The judgement of one Include for each entry of a directory."""

    kept: list[bool] | None
    blocks: list[int] | None
    left: frozenset[bytes]
    noted: dict[bytes, int]


class FileSetSelection:
    """Compiled rules. Safe from several threads, each with its own working directory."""

    def __init__(self, rules: FileSetRules, *, tells_treatments: bool) -> None:
        """Raises UsageError for a regular expression that is not well formed."""
        self.rules = rules
        self._name = rules.spec.name
        excludes = PathGlobs(rules.spec.excludes, ignores_case=False, crosses_slashes=True)
        self._includes = [IncludeBlocks(include, excludes) for include in rules.spec.includes]
        # The innermost first; of the same path the first Include.
        self._roots = sorted(
            rules.roots, key=lambda root: (-root.path.count(b"/"), root.path == b"", root.include)
        )
        self._is_nested = any(
            one is not other and lies_below(one.path, (other.path,))
            for one in rules.roots
            for other in rules.roots
        )
        self._reached: dict[bytes, tuple[FileSetRoot, ...]] = {}
        self._tells_treatments = tells_treatments
        table = treatments(rules.spec)
        self._treatments_of = [
            [table.index(one.treatment) if one.treatment in table else 0 for one in include.blocks]
            for include in self._includes
        ]
        # Directory -> names in it that are kept and entered in any case, with their treatments.
        self._forced: dict[bytes, dict[bytes, int]] = {}
        for root in reversed(self._roots):
            self._force(root)

    def judge(self, path: bytes, names: list[bytes], stats: array[int]) -> Judgement:
        """What to do with `names` in the directory `path`, which must be the working directory.

        `stats` as `stat_rows` returns it; `names` may be a slice of the directory, and begin with
        "." in the root, which is kept.
        """
        if names[:1] == [_ROOT_NAME] and not path:
            rest = self.judge(path, names[1:], stats[COLUMN_COUNT:])
            first = bytes([self._forced.get(b"", {}).get(b"", 0)])
            return Judgement(
                None if rest.kept is None else [True, *rest.kept],
                rest.left,
                None if rest.treatments is None else first + rest.treatments,
                rest.noted,
            )
        roots = self._reaching(path)
        modes = stats[MODE::COLUMN_COUNT].tolist()
        verdicts = [self._verdict(root, path, names, stats, modes, b"") for root in roots]
        forced = self._forced.get(path)
        if len(roots) == 1 and forced is None:
            (verdict,) = verdicts
            treated = (
                self._treatments(roots[0], verdict, len(names)) if self._tells_treatments else None
            )
            return Judgement(verdict.kept, verdict.left, treated, verdict.noted)
        return self._joined(names, roots, verdicts, forced or {})

    def reason(self, path: bytes, name: bytes, mode: int, size_bytes: int) -> str:
        """Why `judge` left a name out."""
        del path, name, mode, size_bytes
        return f"left out by FileSet {self._name}"

    def _treatments(self, root: FileSetRoot, verdict: _Verdict, count: int) -> bytes:
        table = self._treatments_of[root.include]
        usual = table[self._includes[root.include].default]
        if verdict.blocks is None:
            return bytes([usual]) * count
        return bytes([usual if one == EXCLUDED else table[one] for one in verdict.blocks])

    def _joined(
        self,
        names: list[bytes],
        roots: Sequence[FileSetRoot],
        verdicts: Sequence[_Verdict],
        forced: dict[bytes, int],
    ) -> Judgement:
        """Combine the judgements of several Includes (or none)."""
        kept = []
        left = set()
        treated = bytearray()
        noted: dict[bytes, int] = {}
        for verdict in verdicts:
            noted |= verdict.noted
        tables = [
            self._treatments(root, verdict, len(names))
            for root, verdict in zip(roots, verdicts, strict=True)
        ]
        for row, name in enumerate(names):
            keepers = [
                number
                for number, verdict in enumerate(verdicts)
                if verdict.kept is None or verdict.kept[row]
            ]
            kept.append(bool(keepers) or name in forced)
            if kept[-1]:
                noted.pop(name, None)
            elif not roots:
                # A directory above is left out, for whatever reason.
                noted[name] = EXCLUDED_BY_STATE
            if name in forced:
                treated.append(forced[name] or (tables[keepers[0]][row] if keepers else 0))
                continue
            treated.append(tables[keepers[0]][row] if keepers else 0)
            if keepers and all(name in verdicts[number].left for number in keepers):
                left.add(name)
        return Judgement(
            None if all(kept) else kept,
            frozenset(left),
            bytes(treated) if self._tells_treatments else None,
            noted,
        )

    def _verdict(
        self,
        root: FileSetRoot,
        path: bytes,
        names: list[bytes],
        stats: array[int],
        modes: list[int],
        place: bytes,
    ) -> _Verdict:
        """`place`: what leads to the names from the working directory, b"" or with a slash."""
        include = self._includes[root.include]
        if any(map(stat.S_ISDIR, set(modes))):
            directories = [mode & 0o170000 == stat.S_IFDIR for mode in modes]
        else:
            directories = [False] * len(modes)
        decided = include.decide(root.prefixes_of(path), names, directories)
        blocks = include.blocks
        used = {include.default} if decided is None else {*decided} - {EXCLUDED}
        kept = None
        noted: dict[bytes, int] = {}
        if decided is not None and EXCLUDED in decided:
            kept = [one != EXCLUDED for one in decided]
        if any(blocks[one].bounds_sizes or blocks[one].options.honor_no_dump for one in used):
            sizes = stats[SIZE::COLUMN_COUNT]
            kept = kept or [True] * len(names)
            for row, name in enumerate(names):
                if kept[row]:
                    block = blocks[include.default if decided is None else decided[row]]
                    kept[row] = not (
                        (stat.S_ISREG(modes[row]) and not block.fits_size(sizes[row]))
                        or (block.options.honor_no_dump and _is_no_dump(place + name, modes[row]))
                    )
                    if not kept[row]:
                        noted[name] = EXCLUDED_BY_STATE
        rows = [row for row, is_directory in enumerate(directories) if is_directory]
        if include.markers:
            for row in rows:
                if has_marker(place + names[row], include.markers):
                    kept = kept or [True] * len(names)
                    kept[row] = False
                    noted[names[row]] = MARKED
        left: frozenset[bytes] = frozenset()
        if rows:
            own_device = os.stat(place or b".").st_dev
            left = frozenset(
                names[row]
                for row in rows
                if (kept is None or kept[row])
                and not _is_entered(
                    blocks[include.default if decided is None else decided[row]].options,
                    stats[row * COLUMN_COUNT + DEVICE] != own_device,
                    join_path(path, names[row]),
                )
            )
        return _Verdict(kept, decided, left, noted)

    def _reaching(self, path: bytes) -> tuple[FileSetRoot, ...]:
        """The roots whose Includes reach this directory, the innermost first."""
        if not self._is_nested:
            return next(((root,) for root in self._roots if lies_below(path, (root.path,))), ())
        at = b""
        found = self._reaching_step(b"", b"", ())
        for step in path.split(b"/") if path else ():
            below = join_path(at, step)
            known = self._reached.get(below)
            found = self._reaching_step(at, step, found) if known is None else known
            at = below
        return found

    def _reaching_step(
        self, at: bytes, name: bytes, above: tuple[FileSetRoot, ...]
    ) -> tuple[FileSetRoot, ...]:
        path = join_path(at, name)
        here = tuple(root for root in self._roots if root.path == path)
        found = here + tuple(
            root for root in above if root not in here and self._enters(root, at, name)
        )
        if len(self._reached) >= _REACHED_LIMIT:
            self._reached.clear()
        self._reached[path] = found
        return found

    def _enters(self, root: FileSetRoot, at: bytes, name: bytes) -> bool:
        """Whether an Include keeps and enters a directory; independent of the working directory."""
        place = b"/" + join_path(at, b"")
        try:
            stats = array("q", fitting_columns(os.lstat(place + name)))
            verdict = self._verdict(root, at, [name], stats, [stats[MODE]], place)
        except OSError:
            # It cannot be examined by this path, for example one that is too long: keep it.
            return True
        return (verdict.kept is None or verdict.kept[0]) and name not in verdict.left

    def _force(self, root: FileSetRoot) -> None:
        treatment = self._treatments_of[root.include][self._includes[root.include].default]
        path = root.path
        if not path:
            self._forced.setdefault(b"", {})[b""] = treatment
        while path:
            above, name = split_path(path)
            place = self._forced.setdefault(above, {})
            if treatment or name not in place:
                place[name] = treatment
            path, treatment = above, 0


def refusal(root: FileSetRoot, include: FileSetInclude) -> str:
    """Why an existing path is left out by its own Include, or "". Raises OSError."""
    options = include.options[usual_block(include)] if include.options else USUAL_OPTIONS
    place = b"/" + root.path
    status = os.lstat(place)
    if options.file_system_types:
        kind = os.fsdecode(file_system_type(root.path))
        if kind not in options.file_system_types:
            return f"its file system is {kind or 'unknown'}, which FsType does not list"
    if options.honor_no_dump and _is_no_dump(place, status.st_mode):
        return "it has the flag no dump"
    if stat.S_ISREG(status.st_mode):
        smallest, largest = options.smallest_bytes, options.largest_bytes
        if (smallest is not None and status.st_size < smallest) or (
            largest is not None and status.st_size > largest
        ):
            return "its size is not within Size"
    markers = tuple(os.fsencode(name) for name in include.exclude_dir_containing)
    if stat.S_ISDIR(status.st_mode) and has_marker(place, markers):
        return "it holds a file that Exclude Dir Containing names"
    return ""


def has_marker(directory: bytes, markers: Sequence[bytes]) -> bool:
    """Whether a directory holds one of the files; one that cannot be examined does not."""
    for marker in markers:
        try:
            os.stat(directory + b"/" + marker)
        except OSError:
            continue
        return True
    return False


def outermost(roots: Sequence[FileSetRoot]) -> tuple[bytes, ...]:
    """The paths of roots, in listing order, without those below another."""
    found: list[bytes] = []
    for path in sorted({root.path for root in roots}, key=path_key):
        if not found or not lies_below(path, found[-1:]):
            found.append(path)
    return tuple(found)


def _is_entered(options: FileSetOptions, is_elsewhere: bool, path: bytes) -> bool:
    """`is_elsewhere`: the directory is on another file system than the one it is in."""
    if not options.recurse:
        return False
    if not is_elsewhere:
        return True
    if options.one_file_system:
        return False
    types = options.file_system_types
    return not types or os.fsdecode(file_system_type(path)) in types


def _is_no_dump(name: bytes, mode: int) -> bool:
    try:
        return bool(read_flags_of(name, mode) & NO_DUMP_FLAG)
    except OSError:
        return False
