"""A FileSet as the director sends it to an agent: what to back up, in the Bareos sense.

Include blocks add up. Within one, the Options blocks are tried in order: the first one with a
matching pattern decides whether an entry is left out and how it is stored; the last Options block
without patterns holds for all others, or if there is none the last block (but for its Exclude). A
block without patterns that excludes matches all that no block before it matched. For entries that
no block matched, the Exclude blocks decide.
"""

from __future__ import annotations

import msgspec


class FileSetOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One Options block. None: the job's own setting holds.

    compression: a codec as `parse_compression` takes it. signature: as `signature_size` does.
    Patterns are in the notation of the configuration: regexes are POSIX extended ones, found
    anywhere in the path; wild ones match whole paths, and `*` matches slashes too unless
    `enhanced_wild`, with which a wild_file without a slash matches the name alone.
    Sizes bound regular files, both limits included.
    """

    exclude: bool = False
    wild: tuple[str, ...] = ()
    wild_dir: tuple[str, ...] = ()
    wild_file: tuple[str, ...] = ()
    regex: tuple[str, ...] = ()
    regex_dir: tuple[str, ...] = ()
    regex_file: tuple[str, ...] = ()
    ignore_case: bool = False
    enhanced_wild: bool = False
    compression: str | None = None
    signature: str | None = None
    one_file_system: bool = True
    recurse: bool = True
    acls: bool | None = None
    xattrs: bool | None = None
    honor_no_dump: bool = False
    file_system_types: tuple[str, ...] = ()
    smallest_bytes: int | None = None
    largest_bytes: int | None = None

    @property
    def has_patterns(self) -> bool:
        """Whether it applies only to matching entries."""
        return bool(
            self.wild
            or self.wild_dir
            or self.wild_file
            or self.regex
            or self.regex_dir
            or self.regex_file
        )


class FileSetInclude(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    r"""One Include block; `files` are absolute paths.

    A name that begins with `\<` is a file on the agent with a path a line, with `\|` a command
    that prints them there; those of the director are resolved before it is sent.
    plugins: `SOURCE:key=value:...` for the sources of `strongroom.sources`, as Bareos has them.
    exclude_dir_containing: names of marker files.
    """

    files: tuple[str, ...] = ()
    options: tuple[FileSetOptions, ...] = ()
    plugins: tuple[str, ...] = ()
    exclude_dir_containing: tuple[str, ...] = ()


class FileSetSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A FileSet. `excludes`: the File directives of its Exclude blocks."""

    name: str
    includes: tuple[FileSetInclude, ...] = ()
    excludes: tuple[str, ...] = ()
