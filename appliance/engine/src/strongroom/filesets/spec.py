"""A FileSet as the director sends it to an agent: what to back up, in the Bareos sense.

Include blocks add up. Within one, an entry is judged by the Options blocks in their order: the
first one that has patterns and of which one fits decides whether the entry is left out and how it
is treated; the last Options block without patterns gives what holds for all others, or where
there is none the last block (but for its Exclude). A block without patterns that excludes takes
all that no block before it took. What no block took is looked for in the Exclude blocks.
"""

from __future__ import annotations

import msgspec


class FileSetOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One Options block. None: the job's own setting holds.

    compression: a codec as `parse_compression` takes it. signature: as `signature_size` does.
    Patterns are texts as the configuration has them: regexes are POSIX extended ones, found
    anywhere in the path; wild ones fit whole paths, and `*` fits slashes too unless
    `enhanced_wild`, with which a wild_file without a slash speaks about the name alone.
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
        """Whether it judges only what fits."""
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

    What begins with `\<` is a file on the agent with a path a line, what begins with `\|` a
    command that prints them there; those of the director are resolved before it is sent.
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
