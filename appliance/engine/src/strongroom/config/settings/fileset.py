"""FileSet resources: what is backed up, before lists and commands of the director are read."""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.config.model import Resource
from strongroom.config.settings.findings import Findings
from strongroom.config.values.measures import size_bytes
from strongroom.engine.filesets.spec import FileSetOptions


@dataclass(frozen=True, slots=True)
class IncludeSettings:
    """An Include block. files: as written, so `<list` and `|command` may be among them."""

    files: tuple[str, ...]
    options: tuple[FileSetOptions, ...]
    plugins: tuple[str, ...]
    exclude_dir_containing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileSetSettings:
    """A FileSet. excludes: the File directives of its Exclude blocks, as written."""

    name: str
    includes: tuple[IncludeSettings, ...]
    excludes: tuple[str, ...]
    ignores_changes: bool

    @classmethod
    def of(cls, fileset: Resource) -> FileSetSettings:
        """Those of a FileSet resource."""
        return cls(
            name=fileset.name,
            includes=tuple(map(_include, fileset.blocks("include"))),
            excludes=tuple(
                file for block in fileset.blocks("exclude") for file in block.texts("file")
            ),
            ignores_changes=fileset.switch("ignore_fileset_changes"),
        )


def check_fileset(findings: Findings, fileset: FileSetSettings, *, is_enabled: bool) -> None:
    """Report commands on the director, and a choice of nothing. is_enabled: a job of it is."""
    severity = ERROR if is_enabled else WARNING
    resource = findings.resource("FileSet", fileset.name)
    blocks = (*resource.blocks("include"), *resource.blocks("exclude"))
    for directive in (one for block in blocks for one in block.directives("file")):
        if str(directive.value).startswith("|"):
            message = (
                f"FileSet {fileset.name} runs a command on the director for a list of files, which "
                r"is not allowed; on the agent it would be \|"
            )
            findings.at_directive(severity, "fileset", message, directive)
    if not any(include.files or include.plugins for include in fileset.includes):
        message = f"FileSet {fileset.name} has no File and no Plugin, so nothing is backed up"
        findings.warning("fileset", message, resource, "include")


def _include(block: Resource) -> IncludeSettings:
    return IncludeSettings(
        files=block.texts("file"),
        options=tuple(map(_options, block.blocks("options"))),
        plugins=block.texts("plugin"),
        exclude_dir_containing=block.texts("exclude_dir_containing"),
    )


def _options(block: Resource) -> FileSetOptions:
    smallest, largest = _bounds(block.text("size"))
    return FileSetOptions(
        exclude=block.switch("exclude"),
        wild=block.texts("wild"),
        wild_dir=block.texts("wild_dir"),
        wild_file=block.texts("wild_file"),
        regex=block.texts("regex"),
        regex_dir=block.texts("regex_dir"),
        regex_file=block.texts("regex_file"),
        ignore_case=block.switch("ignore_case"),
        enhanced_wild=block.switch("enhanced_wild"),
        compression=block.text("compression") or None,
        signature=block.text("signature") or None,
        one_file_system=block.value("one_fs") is not False,
        recurse=block.value("recurse") is not False,
        acls=block.switch("acl_support") if block.is_set("acl_support") else None,
        xattrs=block.switch("xattr_support") if block.is_set("xattr_support") else None,
        honor_no_dump=block.switch("honor_no_dump_flag"),
        file_system_types=block.texts("fs_type"),
        smallest_bytes=smallest,
        largest_bytes=largest,
    )


def _bounds(text: str) -> tuple[int | None, int | None]:
    """The least and the greatest size that `Size` takes; `N` alone is all within one per cent."""
    if not text:
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
