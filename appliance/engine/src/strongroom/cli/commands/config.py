"""`strongroom config`: check, show, explain, print and convert configuration files."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from strongroom.base.errors import EXIT_DONE, ConfigurationError
from strongroom.base.quantities import counted
from strongroom.cli.commands.config_rewriting import (
    COMPONENTS,
    add_reading_options,
    compare,
    convert_tree,
    explain_tree,
    format_files,
    load_options,
    print_schema,
    write_documents,
)
from strongroom.cli.settings import USUAL_CONFIGURATION
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.config.language.diagnostics import Diagnostic

EPILOG = """examples:
  strongroom config check /etc/strongroom
  strongroom config check --strict --dialect bareos26 /etc/bareos
  strongroom config parse --component director --json bareos-dir.conf
  strongroom config show --config /etc/bareos Job/nightly
  strongroom config explain /etc/bareos
  strongroom config fmt --write /etc/strongroom
  strongroom config diff /etc/strongroom /tmp/planned
  strongroom config convert /etc/bacula --into /tmp/strongroom
"""
EXIT_PARSE_FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands and their options."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    check = _command(commands, "check", _check, "check a tree or a file for errors")
    check.add_argument("path", help="a folder such as /etc/strongroom or /etc/bareos, or a file")
    check.add_argument(
        "--fragment",
        action="store_true",
        help="a single file of a tree: resources that it names may be defined elsewhere",
    )
    add_reading_options(check)
    parse = _command(
        commands, "parse", _parse, "print the resources of one file as parsed, without defaults"
    )
    parse.add_argument("path", metavar="FILE", help="a file, or a component's folder")
    add_reading_options(parse)
    show = _command(commands, "show", _show, "print effective values and their origin")
    show.add_argument(
        "resource",
        nargs="?",
        default="",
        metavar="RESOURCE",
        help="TYPE, NAME or TYPE/NAME, also after COMPONENT: (usually all)",
    )
    show.add_argument(
        "--config", default=USUAL_CONFIGURATION, metavar="PATH", help="the tree or file"
    )
    show.add_argument("--set", action="store_true", help="leave out default values")
    show.add_argument("--secrets", action="store_true", help="print passwords")
    add_reading_options(show)
    explain = _command(commands, "explain", explain_tree, "explain the effect of each directive")
    explain.add_argument("path", help="a folder or a file")
    add_reading_options(explain)
    fmt = _command(commands, "fmt", format_files, "print in canonical form")
    fmt.add_argument("paths", nargs="+", metavar="PATH", help="files, or folders of a tree")
    fmt.add_argument("--write", action="store_true", help="rewrite the files")
    fmt.add_argument("--check", action="store_true", help="only list the files that would change")
    add_reading_options(fmt)
    diff = _command(commands, "diff", compare, "compare two trees by meaning")
    diff.add_argument("before", metavar="A")
    diff.add_argument("after", metavar="B")
    add_reading_options(diff)
    convert = _command(
        commands,
        "convert",
        convert_tree,
        "convert a Bareos or Bacula tree to a Strongroom tree",
    )
    convert.add_argument("path", help="the tree, such as /etc/bareos")
    convert.add_argument("--into", required=True, metavar="FOLDER", help="a new folder")
    add_reading_options(convert)
    schema = _command(commands, "schema", print_schema, "print the JSON schema")
    schema.add_argument("--component", choices=COMPONENTS, help="of this one only")
    docs = _command(commands, "docs", write_documents, "write the reference")
    docs.add_argument(
        "--into",
        default="docs/reference",
        metavar="FOLDER",
        help="the folder to write to (%(default)s)",
    )
    docs.add_argument("--check", action="store_true", help="only list stale pages")


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    work: Callable[[argparse.Namespace, Terminal], int],
    summary: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
    )
    parser.set_defaults(run=work)
    return parser


def _show_findings(findings: list[Diagnostic], terminal: Terminal) -> None:
    """Print findings, also with --quiet: they are the result."""
    if terminal.as_json:
        return
    for finding in findings:
        terminal.styled([*finding.pieces(), ("", "\n")])


def _parse(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.config.trees.loader import load_trees

    loaded = load_trees(arguments.path, load_options(arguments), arguments.component)
    resources = [one for tree in loaded.trees.values() for one in tree.resources_json()]
    errors = loaded.diagnostics.sorted("error")
    warnings = loaded.diagnostics.sorted("warning")
    terminal.emit(
        {
            "resources": resources,
            "errors": [finding.as_json() for finding in errors],
            "warnings": [finding.as_json() for finding in warnings],
        }
    )
    if not terminal.as_json:
        for resource in resources:
            terminal.line(f"{resource['type']} {resource['name']}")
            for name, value, place in resource["directives"]:
                terminal.line(f"    {name} = {value}    # {place['file']}:{place['line']}")
    _show_findings(sorted([*errors, *warnings], key=lambda finding: finding.place), terminal)
    return EXIT_PARSE_FAILED if loaded.diagnostics.has_errors else EXIT_DONE


def _check(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.config.resolve import resolve
    from strongroom.config.trees.loader import is_whole, load_trees

    loaded = load_trees(arguments.path, load_options(arguments), arguments.component)
    whole = not arguments.fragment and is_whole(arguments.path, arguments.component)
    configuration = resolve(loaded, whole=whole)
    director, settings = configuration.director, configuration.settings
    if director is not None and settings is not None and not loaded.diagnostics.has_errors:
        from strongroom.director.schedule.year import plan_year

        plan_year(director, settings, loaded.diagnostics)
    findings = loaded.diagnostics.sorted()
    for finding in findings:
        terminal.emit({"type": "finding", **finding.as_json()})
    _show_findings(findings, terminal)
    counts = {
        severity: len(loaded.diagnostics.sorted(severity))
        for severity in ("error", "warning", "note")
    }
    resources = {name: len(tree.blocks) for name, tree in loaded.trees.items()}
    terminal.emit(
        {
            "type": "summary",
            "files": len(loaded.files),
            "resources": resources,
            "lenient": sorted(loaded.lenient),
            "errors": counts["error"],
            "warnings": counts["warning"],
            "notes": counts["note"],
        }
    )
    read = ", ".join(f"{count} in the {name}" for name, count in resources.items())
    findings_text = ", ".join(counted(count, severity) for severity, count in counts.items())
    terminal.line(f"{counted(len(loaded.files), 'file')} read; resources: {read}; {findings_text}")
    if loaded.lenient:
        names = ", ".join(sorted(loaded.lenient))
        terminal.line(f"unknown directives are warnings, as in a tree of Bareos: {names}")
    if loaded.diagnostics.dropped:
        terminal.warn(f"{loaded.diagnostics.dropped} more findings are not shown")
    return ConfigurationError.exit_code if loaded.diagnostics.has_errors else EXIT_DONE


def _show(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.config.reports.effective import effective_values, find_resources
    from strongroom.config.resolve import load

    configuration = load(arguments.config, load_options(arguments), arguments.component)
    for component, resource in find_resources(configuration, arguments.resource):
        values = effective_values(resource, defaults=not arguments.set, secrets=arguments.secrets)
        terminal.emit(
            {
                "component": component,
                "type": resource.type,
                "name": resource.name,
                "values": [
                    {
                        "name": value.name,
                        "value": value.data,
                        "origin": value.origin.kind,
                        "file": value.origin.file,
                        "line": value.origin.line,
                        "inherited_from": value.origin.inherited_from,
                    }
                    for value in values
                ],
            }
        )
        terminal.line(f"{component}: {resource.type} {resource.name}")
        for value in values:
            terminal.line(f"    {value.name} = {value.text}    # {value.origin}")
    return EXIT_DONE
