r"""FileSets: from the configuration to what an agent is told, and from that to a backup.

On the director `fileset_spec` makes a FileSetSpec of a FileSet resource; on the agent
`resolve_fileset` looks up its paths, lists, commands and sources, and `with_fileset` makes them
part of a backup's options. `File = <list` and `|command` are read where the director runs,
`\\<list` and `\\|command` (in quotes) where the agent does. Commands run only where allowed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec
from blake3 import blake3

from strongroom.content.codecs import parse_compression
from strongroom.content.digests import signature_names, signature_size
from strongroom.errors import RefusedError, SourceError
from strongroom.jobs.backup_options import BackupOptions, Treatment
from strongroom.jobs.coordinator import Problem
from strongroom.jobs.fileset_plugins import plugin_source
from strongroom.scan.fileset import FileSetInclude, FileSetOptions, FileSetSpec
from strongroom.scan.fileset_blocks import deciding_treatments, treatments
from strongroom.scan.fileset_selection import FileSetRoot, FileSetRules, outermost, refusal
from strongroom.scan.sources import settled_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strongroom.config.model import Resource
    from strongroom.scan.sources import Source, Stream

_LIST_BYTES_LIMIT: Final = 64 << 20
_ON_AGENT: Final = ("\\<", "\\|")


@dataclass(frozen=True, slots=True)
class ResolvedFileSet:
    """A FileSet on this machine, ready to be backed up.

    problems: paths that are named but not there; they make the backup incomplete. notes: what
    the FileSet itself leaves out, and what else the user should know.
    """

    rules: FileSetRules
    source: Source
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def fileset_spec(resource: Resource, *, allow_commands: bool = False) -> FileSetSpec:
    """What a FileSet resource says; lists and commands of the director are read now.

    Raises RefusedError for a command that is not allowed, SourceError for a list or a command
    that cannot be read.
    """

    def files(texts: Sequence[str]) -> tuple[str, ...]:
        found: list[str] = []
        for text in texts:
            if text.startswith(("<", "|")):
                found += map(os.fsdecode, _lines(text, allow_commands=allow_commands))
            else:
                found.append(text)
        return tuple(found)

    return FileSetSpec(
        name=resource.name,
        includes=tuple(
            FileSetInclude(
                files=files(include.file),
                options=tuple(map(_options, include.options)),
                plugins=include.plugin,
                exclude_dir_containing=include.exclude_dir_containing,
            )
            for include in resource.include
        ),
        excludes=tuple(chain.from_iterable(files(exclude.file) for exclude in resource.exclude)),
    )


def fileset_notes(resource: Resource) -> tuple[str, ...]:
    """What a FileSet resource says that has no effect here, and why; each once."""
    from strongroom.config.effects import NO_EFFECT, effect_of
    from strongroom.config.tree import Block

    notes: dict[str, None] = {}

    def look(block: Block) -> None:
        for directive in block.directives:
            if isinstance(directive.value, Block):
                look(directive.value)
                continue
            effect = effect_of("director", block.spec.name, directive.spec)
            if effect.status == NO_EFFECT:
                notes[f"{directive.spec.shown_name} has no effect: {effect.why}"] = None

    look(resource.block)
    return tuple(notes)


def resolve_fileset(spec: FileSetSpec, *, allow_commands: bool = False) -> ResolvedFileSet:
    r"""Look a FileSet up on this machine; just before the backup, as sources may freeze things.

    `allow_commands`: of `\|command` and of plugins that run one. Raises RefusedError,
    SourceError when a list, command or source fails or nothing is there at all, UsageError.
    """
    roots: list[FileSetRoot] = []
    sources: list[Source] = []
    problems: list[Problem] = []
    notes: list[str] = []
    for number, include in enumerate(spec.includes):
        for name in _names(include.files, allow_commands=allow_commands):
            shown = name.decode("utf-8", "backslashreplace")
            try:
                root = _root(name, number)
                left_out = refusal(root, include)
            except (SourceError, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                text = f"FileSet {spec.name} names it: {reason}"
                problems.append(Problem(name.strip(b"/"), 0, text))
                continue
            if left_out:
                notes.append(f"{shown} is left out: {left_out}")
            elif root not in roots:
                roots.append(root)
        for text in include.plugins:
            source = plugin_source(text, allow_commands=allow_commands)
            roots += [FileSetRoot(path, b"/" + path, number) for path in source.paths()]
            sources.append(source)
    if not roots and not sources:
        raise SourceError(f"nothing that FileSet {spec.name} names is there")
    excludes = [*map(os.fsdecode, _names(spec.excludes, allow_commands=allow_commands))]
    rules = FileSetRules(msgspec.structs.replace(spec, excludes=tuple(excludes)), tuple(roots))
    return ResolvedFileSet(rules, _FileSetSource(roots, sources), tuple(problems), tuple(notes))


def with_fileset(
    options: BackupOptions, resolved: ResolvedFileSet
) -> tuple[BackupOptions, tuple[str, ...]]:
    """The options of a backup of this FileSet, and what the user should know of them.

    What Options blocks say goes before `options.tuning`. A snapshot has one kind of signature:
    where blocks want several the strongest is taken for all files that are to have any. Raises
    UsageError for a compression or signature that there is not.
    """
    spec = resolved.rules.spec
    tuning = options.tuning
    chosen = treatments(spec)
    names = [tuning.signature if one.signature is None else one.signature for one in chosen]
    for name in names:
        signature_size(name)
    settled = [
        Treatment(
            tuning.compression if one.compression is None else parse_compression(one.compression),
            name != "none",
            tuning.acls if one.acls is None else one.acls,
            tuning.xattrs if one.xattrs is None else one.xattrs,
        )
        for one, name in zip(chosen, names, strict=True)
    ]
    deciding = [chosen.index(one) for one in deciding_treatments(spec)] or [0]
    wanted = {names[place] for place in deciding} - {"none"}
    strongest = max(wanted, key=signature_names().index, default="none")
    notes = list(resolved.notes)
    if len(wanted) > 1:
        notes.append(
            f"FileSet {spec.name} asks for the signatures {', '.join(sorted(wanted))}; a snapshot "
            f"has one kind, so {strongest} is made for all of these files"
        )
    tuning = replace(tuning, signature=strongest)
    distinct = {settled[place] for place in deciding}
    told: tuple[Treatment, ...] = ()
    digest = ""
    if len(distinct) == 1:
        (only,) = distinct
        tuning = replace(tuning, compression=only.compression, acls=only.acls, xattrs=only.xattrs)
    else:
        told = tuple(settled)
        if len({(one.signs, one.acls, one.xattrs) for one in distinct}) > 1:
            digest = blake3(msgspec.msgpack.encode(resolved.rules)).hexdigest(16)
    changed = replace(
        options,
        fileset=options.fileset or spec.name,
        selection=resolved.rules,
        treatments=told,
        treatment_digest=digest,
        known_problems=(*options.known_problems, *resolved.problems),
        tuning=tuning,
    )
    return changed, tuple(notes)


class _FileSetSource:
    """Paths of the Includes, and the streams of their plugins."""

    def __init__(self, roots: Sequence[FileSetRoot], sources: Sequence[Source]) -> None:
        self._roots = roots
        self._sources = sources

    def paths(self) -> tuple[bytes, ...]:
        """The outermost paths."""
        return outermost(self._roots)

    def streams(self) -> Iterator[Stream]:
        """The streams of all sources, one source after the other."""
        return chain.from_iterable(source.streams() for source in self._sources)


def _options(block: Any) -> FileSetOptions:
    smallest, largest = _bounds(block.size)
    return FileSetOptions(
        exclude=bool(block.exclude),
        wild=block.wild,
        wild_dir=block.wild_dir,
        wild_file=block.wild_file,
        regex=block.regex,
        regex_dir=block.regex_dir,
        regex_file=block.regex_file,
        ignore_case=bool(block.ignore_case),
        enhanced_wild=bool(block.enhanced_wild),
        compression=block.compression,
        signature=block.signature,
        one_file_system=block.one_fs is not False,
        recurse=block.recurse is not False,
        acls=block.acl_support if block.is_set("acl_support") else None,
        xattrs=block.xattr_support if block.is_set("xattr_support") else None,
        honor_no_dump=bool(block.honor_no_dump_flag),
        file_system_types=block.fs_type,
        smallest_bytes=smallest,
        largest_bytes=largest,
    )


def _bounds(text: str | None) -> tuple[int | None, int | None]:
    """The least and the greatest size that `Size` takes; `N` alone is all within one per cent."""
    from strongroom.config.measures import size_bytes

    if text is None:
        return None, None
    first, _, second = text.strip().lstrip("<>").partition("-")
    low = size_bytes(first.strip()) or 0
    if text.lstrip().startswith("<"):
        return None, low - 1
    if text.lstrip().startswith(">"):
        return low + 1, None
    if second:
        return low, size_bytes(second.strip())
    return low - low // 100 + 1, low + low // 100 - 1


def _names(texts: Sequence[str], *, allow_commands: bool) -> Iterator[bytes]:
    for text in texts:
        if text.startswith(_ON_AGENT):
            yield from _lines(text[1:], allow_commands=allow_commands)
        else:
            yield os.fsencode(text)


def _lines(text: str, *, allow_commands: bool) -> list[bytes]:
    """The lines of `<list` or `|command` that are not blank."""
    from strongroom.config.commands import run_command

    kind, what = text[0], text[1:].strip()
    if kind == "|" and not allow_commands:
        raise RefusedError(
            f"the FileSet runs the command {what!r} for a list of files, and commands are not "
            "allowed here"
        )
    try:
        if kind == "|":
            data = run_command(what, _LIST_BYTES_LIMIT)
        else:
            with open(what, "rb") as file:
                data = file.read(_LIST_BYTES_LIMIT)
    except OSError as error:
        raise SourceError(f"cannot read the list of files {text!r}: {error.strerror}") from error
    return [line for line in (line.strip() for line in data.splitlines()) if line]


def _root(name: bytes, include: int) -> FileSetRoot:
    if not name.startswith(b"/"):
        raise SourceError("it is no absolute path")
    return FileSetRoot(settled_path(name), name.rstrip(b"/") or b"/", include)
