"""A FileSet as part of a backup's options."""

from __future__ import annotations

import msgspec
from blake3 import blake3

from strongroom.engine.backup.options import BackupOptions, Treatment
from strongroom.engine.content.codecs import parse_compression
from strongroom.engine.content.digests import signature_names, signature_size
from strongroom.engine.filesets.blocks import deciding_treatments, treatments
from strongroom.engine.filesets.resolve import ResolvedFileSet


def with_fileset(
    options: BackupOptions, resolved: ResolvedFileSet
) -> tuple[BackupOptions, tuple[str, ...]]:
    """The options of a backup of this FileSet, and notes for the user.

    Settings of Options blocks take precedence over `options.tuning`. A snapshot has one kind of
    signature: where blocks ask for several, the strongest is used for all files that get one.
    Raises UsageError for an unknown compression or signature.
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
    tuning = msgspec.structs.replace(tuning, signature=strongest)
    distinct = {settled[place] for place in deciding}
    reported: tuple[Treatment, ...] = ()
    digest = ""
    if len(distinct) == 1:
        (only,) = distinct
        tuning = msgspec.structs.replace(
            tuning, compression=only.compression, acls=only.acls, xattrs=only.xattrs
        )
    else:
        reported = tuple(settled)
        if len({(one.signs, one.acls, one.xattrs) for one in distinct}) > 1:
            digest = blake3(msgspec.msgpack.encode(resolved.rules)).hexdigest(16)
    changed = msgspec.structs.replace(
        options,
        fileset=options.fileset or spec.name,
        selection=resolved.rules,
        treatments=reported,
        treatment_digest=digest,
        known_problems=(*options.known_problems, *resolved.problems),
        tuning=tuning,
    )
    return changed, tuple(notes)
