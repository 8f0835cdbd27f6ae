"""The sub-commands of `strongroom config` that write or compare configuration or documents."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING

from strongroom.base.errors import EXIT_DONE, ConfigurationError, UsageError
from strongroom.base.quantities import counted
from strongroom.cli.terminal import Terminal
from strongroom.net.identities.private_files import write_file

if TYPE_CHECKING:
    from strongroom.config.trees.loader import LoadOptions

EXIT_DIFFERENT = 1
COMPONENTS = ("director", "storage", "agent", "console", "monitor", "machine")


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add what `load_options` reads."""
    add = parser.add_argument
    add(
        "--component",
        choices=COMPONENTS,
        help="the component it belongs to (default: by the names of files and folders)",
    )
    add(
        "--dialect",
        metavar="NAME",
        help="strongroom, bareos23 to bareos26, bacula9 to bacula15 (default: by the names of "
        "files and folders; only strongroom rejects unknown directives without --strict)",
    )
    add(
        "--strict",
        action="store_true",
        help="reject what the dialect's daemon rejects (Bareos 26 unless --dialect is given)",
    )
    add("--werror", action="store_true", help="count warnings as errors")
    add(
        "--allow-commands",
        action="store_true",
        help="run the commands of `@|command` includes; only for files you trust",
    )
    add(
        "--root",
        default="",
        metavar="FOLDER",
        help="resolve absolute includes below FOLDER (a tree copied from another machine)",
    )


def load_options(arguments: argparse.Namespace) -> LoadOptions:
    """How configuration is read: by the options of the command, or the names of its files."""
    from strongroom.config.table.dialects import dialect_named
    from strongroom.config.trees.loader import LoadOptions, is_bacula

    name = arguments.dialect
    paths = [getattr(arguments, field, None) for field in ("path", "before", "config")]
    if name is None and not arguments.strict and any(path and is_bacula(path) for path in paths):
        name = "bacula15"
    return LoadOptions(
        dialect=None if name is None else dialect_named(name),
        strict=arguments.strict,
        werror=arguments.werror,
        allow_commands=arguments.allow_commands,
        root=arguments.root.rstrip("/"),
    )


def format_files(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """`fmt`: print canonical text, rewrite the files, or only list those that would change."""
    from strongroom.config.language.sources import decode, read_bounded
    from strongroom.config.trees.loader import component_files
    from strongroom.config.trees.printer import format_text

    options = load_options(arguments)
    changed = 0
    for path in arguments.paths:
        for component, files in component_files(path, arguments.component).items():
            for file in sorted(files):
                data = read_bounded(file, options.limits.file_bytes)
                text = decode(data) if data is not None else None
                if text is None:
                    raise ConfigurationError(f"{file} is too large, or UTF-16; it is left alone")
                printed = format_text(text, component, options.dialect, file)
                differs = printed != text
                changed += differs
                if arguments.write and differs:
                    _replace_file(file, printed.encode("utf-8", "surrogateescape"))
                if arguments.write or arguments.check:
                    terminal.emit({"type": "file", "path": file, "changed": differs})
                    if differs:
                        terminal.line(
                            f"{'rewritten' if arguments.write else 'would change'}: {file}"
                        )
                elif terminal.as_json:
                    terminal.emit(
                        {"type": "file", "path": file, "changed": differs, "text": printed}
                    )
                else:
                    terminal.document(printed)
    return EXIT_DIFFERENT if arguments.check and changed else EXIT_DONE


def compare(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """`diff`: the differences of two configurations; exit code 1 if there are any."""
    from strongroom.config.reports.effective import differences
    from strongroom.config.resolve import load

    options = load_options(arguments)
    before = load(arguments.before, options, arguments.component)
    after = load(arguments.after, options, arguments.component)
    found = differences(before, after)
    for one in found:
        terminal.emit(
            {
                "type": one.kind,
                "component": one.component,
                "resource": one.type,
                "name": one.name,
                "directive": one.directive,
                "before": one.before.data if one.before else None,
                "after": one.after.data if one.after else None,
            }
        )
        title = f"{one.component}: {one.type} {one.name}"
        if one.kind == "changed":
            old = f"{one.before.text}  ({one.before.origin})" if one.before else "not set"
            new = f"{one.after.text}  ({one.after.origin})" if one.after else "not set"
            terminal.lines((f"~ {title}: {one.directive}", f"    - {old}", f"    + {new}"))
        else:
            terminal.line(f"{'+' if one.kind == 'added' else '-'} {title}")
    return EXIT_DIFFERENT if found else EXIT_DONE


def explain_tree(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """`explain`: the effect of every directive of a tree."""
    from strongroom.config.reports.effects import ACTED_ON, explain
    from strongroom.config.trees.loader import load_trees

    loaded = load_trees(arguments.path, load_options(arguments), arguments.component)
    counts: dict[str, int] = {}
    for tree in loaded.trees.values():
        for one in explain(tree):
            directive, effect = one.directive, one.effect
            counts[effect.status] = counts.get(effect.status, 0) + 1
            terminal.emit(
                {
                    "type": "directive",
                    "component": one.component,
                    "resource": one.resource,
                    "directive": directive.spec.shown_name,
                    "status": effect.status,
                    "why": effect.why,
                    "file": directive.source.path,
                    "line": directive.line,
                }
            )
            text = (
                f"{directive.source.path}:{directive.line}: {one.resource}: "
                f"{directive.spec.shown_name}: {effect.status}"
            )
            if effect.status == ACTED_ON:
                terminal.detail(text)
            else:
                terminal.line(f"{text} ({effect.why})")
    for finding in loaded.diagnostics.sorted():
        terminal.emit({"type": "finding", **finding.as_json()})
        if finding.severity != "note":
            terminal.line(finding.head())
    shown = ", ".join(f"{count} {status}" for status, count in counts.items())
    terminal.line(f"{shown or 'no directives'}; --verbose shows those acted on as well")
    return ConfigurationError.exit_code if loaded.diagnostics.has_errors else EXIT_DONE


def convert_tree(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """`convert`: write a Strongroom tree into an empty folder, and read it back."""
    from strongroom.config.reports.convert import convert
    from strongroom.config.resolve import load, resolve
    from strongroom.config.trees.loader import LoadOptions, load_trees

    target = arguments.into
    if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise UsageError(f"{target} is there and not empty; name a new folder")
    loaded = load_trees(arguments.path, load_options(arguments), arguments.component)
    resolve(loaded)
    if loaded.diagnostics.has_errors:
        count = len(loaded.diagnostics.sorted("error"))
        raise ConfigurationError(
            f"{arguments.path} has {count} errors; see `strongroom config check {arguments.path}`"
        )
    conversion = convert(loaded)
    for name, text in {**conversion.files, "CONVERSION.md": conversion.markdown()}.items():
        path = os.path.join(target, name)
        os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)
        _replace_file(path, text.encode("utf-8", "surrogateescape"))
    load(target, LoadOptions())
    for entry in conversion.report:
        terminal.emit(
            {
                "type": entry.status,
                "file": entry.file,
                "line": entry.line,
                "resource": entry.resource,
                "directive": entry.directive,
                "why": entry.why,
            }
        )
        what = f"{entry.resource}: {entry.directive}" if entry.directive else entry.resource
        terminal.line(f"{entry.file}:{entry.line}: {what}: {entry.status}: {entry.why}")
    terminal.emit({"type": "summary", "files": len(conversion.files), "kept": conversion.kept})
    terminal.line(f"{target}: {counted(len(conversion.files), 'file')}; {conversion.summary()}")
    return EXIT_DONE


def print_schema(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """`schema`: the table as JSON Schema."""
    from strongroom.config.reports.reference import json_schema

    terminal.document(json.dumps(json_schema(arguments.component), indent=2) + "\n")
    return EXIT_DONE


def write_documents(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """`docs`: the reference, written into a folder or compared with what is there."""
    from strongroom.config.reports.reference import reference_pages

    stale = []
    for name, text in reference_pages().items():
        path = os.path.join(arguments.into, name)
        if arguments.check:
            if not os.path.exists(path) or _text_of(path) != text:
                stale.append(path)
        else:
            os.makedirs(arguments.into, exist_ok=True)
            _replace_file(path, text.encode(), 0o644)
        terminal.emit({"type": "page", "path": path, "stale": path in stale})
        if path in stale or not arguments.check:
            terminal.line(f"{'stale' if path in stale else 'written'}: {path}")
    return EXIT_DIFFERENT if stale else EXIT_DONE


def _text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _replace_file(path: str, data: bytes, new_mode: int = 0o640) -> None:
    """Replace the file atomically; permissions of an old one are kept."""
    mode = os.stat(path).st_mode & 0o7777 if os.path.exists(path) else new_mode
    write_file(os.fsencode(path), data, mode)
