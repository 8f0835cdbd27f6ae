"""`strongroom version`: the version, Python's, and those of the libraries it runs on."""

from __future__ import annotations

import argparse
import platform
import re
from importlib import metadata

from strongroom import __version__
from strongroom.base.errors import EXIT_DONE
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom version
  strongroom version --json | jq -r .version
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take no options of its own."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the versions; libraries that are optional and absent are left out."""
    from cryptography.hazmat.backends.openssl import backend

    libraries = _library_versions()
    openssl = backend.openssl_version_text()
    terminal.emit(
        {
            "type": "version",
            "version": __version__,
            "python": platform.python_version(),
            "system": platform.platform(),
            "openssl": openssl,
            "libraries": libraries,
        }
    )
    terminal.line(f"strongroom {__version__}")
    terminal.line(f"Python {platform.python_version()} on {platform.platform()}")
    terminal.line(openssl)
    for name, version in libraries.items():
        terminal.line(f"{name} {version}")
    return EXIT_DONE


def _library_versions() -> dict[str, str]:
    """Name -> version of each library that our package metadata names for use, not for tests."""
    versions: dict[str, str] = {}
    for requirement in metadata.requires("strongroom") or ():
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        if re.search(r"extra\s*==\s*['\"]dev['\"]", requirement):
            continue
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return dict(sorted(versions.items()))
