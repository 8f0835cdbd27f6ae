"""From a path to what its components say: which files make a tree, and reading them all.

A path may be a tree (a folder with `director.d`, `bareos-dir.d`, `bareos-dir.conf` and the like), a
component's folder (`bareos-dir.d`), or one file. Bareos, Bacula and Strongroom names are known.
A folder is read two levels deep (`COMPONENT.d/*/*.conf`), the last name first, as Bareos does. In a
tree a folder without any such file counts for nothing: packages bring empty ones.

The names also say whose language it is, unless a dialect is stated: what lies in `bareos-dir.d` or
`bacula-dir.conf` is a tree of Bareos or Bacula, in which unknown directives and resources are
warnings. Everything else is our own: there they are errors, since a misspelt directive would have
no effect.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from strongroom.base.errors import UsageError
from strongroom.config.language.bounded_files import Reader, files_matching
from strongroom.config.language.diagnostics import Diagnostics
from strongroom.config.language.sources import LoadLimits, SourceText, decode
from strongroom.config.table.dialects import Dialect, dialect_named
from strongroom.config.table.schema import COMPONENTS, schema
from strongroom.config.trees.parser import Parser
from strongroom.config.trees.tree import ComponentTree

# Component -> stems of its file and folder, ours first.
STEMS = {
    "director": ("director", "bareos-dir", "bacula-dir"),
    "storage": ("storage", "bareos-sd", "bacula-sd"),
    "agent": ("agent", "bareos-fd", "bacula-fd"),
    "console": ("console", "bconsole"),
    "monitor": ("monitor", "tray-monitor", "bareos-tray-monitor"),
    "machine": ("machine",),
}
_FOREIGN_STEMS = frozenset(stem for _, *foreign in STEMS.values() for stem in foreign)
# Names the components go by elsewhere.
COMPONENT_ALIASES = {
    **{stem: component for component, stems in STEMS.items() for stem in stems},
    "file": "agent",
    "client": "agent",
}


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a tree is read and judged."""

    dialect: Dialect | None = None  # None: by the names of the files, or Bareos 26 when strict
    strict: bool = False
    werror: bool = False
    allow_commands: bool = False
    root: str = ""
    limits: LoadLimits = field(default_factory=LoadLimits)
    layout: bool = False  # keep comments and includes, for the printer

    @property
    def effective_dialect(self) -> Dialect:
        """The dialect that judges."""
        return self.dialect or dialect_named(None, strict=self.strict)

    def reader(self) -> Reader:
        """What reads the files of one load, and collects what is found wrong."""
        diagnostics = Diagnostics(werror=self.werror, limit=self.limits.diagnostics)
        return Reader(diagnostics, self.limits, allow_commands=self.allow_commands, root=self.root)

    def parser(self, component: str, reader: Reader, *, rejects_unknown: bool) -> Parser:
        """What parses the texts of one component."""
        return Parser(
            schema().components[component],
            self.effective_dialect,
            reader,
            strict=self.strict,
            rejects_unknown=rejects_unknown,
            layout=self.layout,
        )

    def rejects_unknown(self, path: str) -> bool:
        """Whether a directive that no one knows is an error in the file or folder at `path`."""
        if self.strict or self.layout:
            # The printer keeps what no one knows as it is written.
            return self.strict
        return is_own(path) if self.dialect is None else self.dialect.has_own


@dataclass(slots=True)
class Loaded:
    """The trees of a path, by component, and what was found wrong.

    lenient: the components in which unknown directives are warnings. places: the file or folder
    of each component.
    """

    trees: dict[str, ComponentTree]
    diagnostics: Diagnostics
    files: list[str]
    options: LoadOptions
    lenient: frozenset[str] = frozenset()
    places: Mapping[str, str] = field(default_factory=dict)


def load_trees(
    path: str,
    options: LoadOptions,
    component: str | None = None,
    instead: Mapping[str, str | None] | None = None,
) -> Loaded:
    """Read what is at `path`, of one component or of all that are there.

    instead: texts by the paths of files, for trying out a change: each means the file, which
    need not be there; None means no file. Raises UsageError when `path` is not there, or no
    component is clear from its name.
    """
    reader = options.reader()
    trees: dict[str, ComponentTree] = {}
    lenient = set()
    places = {}
    for name, files in component_files(path, component).items():
        rejects_unknown = options.rejects_unknown(files[0] if files else path)
        if not rejects_unknown:
            lenient.add(name)
        parser = options.parser(name, reader, rejects_unknown=rejects_unknown)
        for file in files:
            if instead is not None and file in instead:
                continue
            source = reader.read(file)
            if source is not None:
                parser.parse(source)
        for file, text in (instead or {}).items():
            if text is not None:
                parser.parse(SourceText(file, text))
        trees[name] = parser.tree
        folder = component_folder(path, name)
        places[name] = folder or (files[0] if files else path)
        _tell_of_misplaced(folder, reader)
    return Loaded(trees, reader.diagnostics, reader.files_read, options, frozenset(lenient), places)


def load_text(
    data: bytes | str, component: str, options: LoadOptions, path: str = "<text>"
) -> Loaded:
    """Read one text as configuration of `component`.

    Includes are followed from the folder of `path`.
    """
    reader = options.reader()
    rejects_unknown = options.rejects_unknown(path)
    parser = options.parser(component, reader, rejects_unknown=rejects_unknown)
    text = decode(data) if isinstance(data, bytes) else data.removeprefix("\ufeff")
    if text is None:
        reader.diagnostics.add(
            "error", "encoding", f"{path} is UTF-16; save it as UTF-8", SourceText(path, ""), 0
        )
    else:
        parser.parse(SourceText(path, text))
    lenient = frozenset(() if rejects_unknown else (component,))
    trees, places = {component: parser.tree}, {component: path}
    return Loaded(trees, reader.diagnostics, reader.files_read, options, lenient, places)


def component_files(path: str, component: str | None = None) -> dict[str, list[str]]:
    """Component -> its files in the order they are read. Raises UsageError."""
    if component is not None and component not in COMPONENTS:
        raise UsageError(f"there is no component `{component}`; there are {', '.join(COMPONENTS)}")
    if not os.path.exists(path):
        raise UsageError(f"{path}: there is no such file or folder")
    if not os.path.isdir(path):
        return {component or _component_of(path): [path]}
    base = os.path.basename(os.path.normpath(path))
    if base.endswith(".d") and (component or base[:-2] in COMPONENT_ALIASES):
        return {component or COMPONENT_ALIASES[base[:-2]]: _folder_files(path)}
    found: dict[str, list[str]] = {}
    for name in [component] if component else COMPONENTS:
        if place := _place_in(path, name):
            found[name] = _folder_files(place) if os.path.isdir(place) else [place]
    if not found:
        known = ", ".join(f"{stems[0]}.d" for stems in STEMS.values())
        raise UsageError(
            f"{path}: no configuration is here; looked for {known}, bareos-dir.d, bacula-dir.conf "
            "and the like"
        )
    return found


def component_folder(path: str, component: str) -> str | None:
    """The folder (`director.d` or so) whose files a component reads; None where it is one file.

    Raises UsageError where nothing is there.
    """
    if not os.path.isdir(path):
        return None
    base = os.path.basename(os.path.normpath(path))
    if base.endswith(".d") and COMPONENT_ALIASES.get(base[:-2]) == component:
        return path
    component_files(path, component)
    place = _place_in(path, component)
    return place if place and os.path.isdir(place) else None


def _place_in(tree: str, component: str) -> str | None:
    """The file or folder of a component in a tree; None where it has neither."""
    for stem in STEMS[component]:
        file, folder = (os.path.join(tree, f"{stem}{end}") for end in (".conf", ".d"))
        if os.path.isfile(file):
            return file
        if _has_files(folder):
            return folder
    return None


def has_component(path: str, component: str) -> bool:
    """Whether a tree at `path` has files of a component."""
    if not os.path.isdir(path) or os.path.normpath(path).endswith(".d"):
        return False
    try:
        return bool(component_files(path, component))
    except UsageError:
        return False


def is_bacula(path: str) -> bool:
    """Whether the names at `path` are Bacula's."""
    names = [os.path.basename(os.path.normpath(path))]
    if os.path.isdir(path):
        names += os.listdir(path)
    stems = {name.removesuffix(".conf").removesuffix(".d") for name in names}
    return bool(stems & {"bacula-dir", "bacula-sd", "bacula-fd"})


def is_own(path: str) -> bool:
    """Whether a file or folder is Strongroom's own: no name of Bareos or Bacula is about it."""
    folder = os.path.abspath(path)
    # The folder of the component decides: in bareos-dir.d there may well be an `agent.conf`.
    for _ in range(4):
        base = os.path.basename(folder)
        if base.endswith(".d") and base[:-2] in COMPONENT_ALIASES:
            return base[:-2] not in _FOREIGN_STEMS
        folder = os.path.dirname(folder)
    return os.path.basename(os.path.abspath(path)).removesuffix(".conf") not in _FOREIGN_STEMS


def is_whole(path: str, component: str | None) -> bool:
    """Whether `path` is all that a component reads: a folder, a main file, or declared to be.

    One file out of a tree names resources that other files define.
    """
    stem = os.path.basename(os.path.normpath(path)).removesuffix(".conf")
    return component is not None or os.path.isdir(path) or stem in COMPONENT_ALIASES


def _folder_files(folder: str) -> list[str]:
    return files_matching("*/*.conf", folder)


def _has_files(folder: str) -> bool:
    """Whether a folder has files of a configuration, also such as are misplaced in it."""
    return bool(_folder_files(folder) or files_matching("*.conf", folder))


def _tell_of_misplaced(folder: str | None, reader: Reader) -> None:
    """Warn of files right in `director.d` and the like, which no daemon reads."""
    if folder is None or not (misplaced := files_matching("*.conf", folder)):
        return
    files_read = {os.path.realpath(file) for file in reader.files_read}
    for file in misplaced:
        if os.path.realpath(file) not in files_read:  # else another file includes it
            name = os.path.basename(file)
            message = (
                f"{name} is not read: files belong one folder deeper, as in "
                f"{os.path.basename(os.path.normpath(folder))}/FOLDER/{name}"
            )
            reader.diagnostics.add("warning", "misplaced", message, SourceText(file, ""), 0)


def _component_of(path: str) -> str:
    """The component a single file belongs to: by its name, or by the folder it lies in."""
    stem = os.path.basename(path).removesuffix(".conf")
    if stem in COMPONENT_ALIASES:
        return COMPONENT_ALIASES[stem]
    folder = os.path.dirname(os.path.abspath(path))
    for _ in range(3):
        base = os.path.basename(folder)
        if base.endswith(".d") and base[:-2] in COMPONENT_ALIASES:
            return COMPONENT_ALIASES[base[:-2]]
        folder = os.path.dirname(folder)
    raise UsageError(
        f"{path}: which component reads this file is not clear from its name; say --component"
    )
