"""The optional parts of an installation, and what to say where a library is missing.

`pip install ./appliance/engine` installs what every command of a user needs. The parts here are
left out, as most machines do without them.
"""

from __future__ import annotations

import sys
from typing import Final

from strongroom.errors import MissingPartError
from strongroom.printable import printable

# The parts of pyproject.toml -> what they bring, as it is imported.
_LIBRARIES: Final = {
    "director": frozenset(
        ("alembic", "fastapi", "h11", "jinja2", "pydantic", "sqlalchemy", "starlette", "uvicorn")
    ),
    "postgresql": frozenset(("psycopg",)),
    "appliance": frozenset(("segno", "yaml")),
    "lzo": frozenset(("lzo",)),
}
# A catalog in PostgreSQL is the director's.
_TOGETHER: Final = {"postgresql": "director,postgresql"}
_PURPOSES: Final = {
    "director": "the director",
    "postgresql": "a catalog in PostgreSQL",
    "lzo": "LZO compression",
    "appliance": "the console of the appliance",
}
# The project's own packages that have a part.
_PACKAGES: Final = {
    "director": "strongroom-director",
    "postgresql": "strongroom-director",
    "appliance": "strongroom-appliance",
}
_NEEDS: Final = {"lzo": " (Debian's liblzo2-dev, python3-dev and gcc first)"}


def missing_library(library: str) -> MissingPartError:
    """The error for `library`, which could not be imported."""
    top = library.partition(".")[0]
    for part, libraries in _LIBRARIES.items():
        if top in libraries:
            return MissingPartError(f"{_PURPOSES[part]} needs the library {top}: {mend(part)}")
    return MissingPartError(
        f"the library {printable(top)}, which every command needs, is not installed, so this "
        "installation is not whole: `apt-get install --reinstall strongroom`, or in a checkout of "
        f"Strongroom `{_pip()} install ./appliance/engine`"
    )


def mend(part: str) -> str:
    """How to install `part`: from the project's Debian packages, or in a checkout."""
    wanted = _TOGETHER.get(part, part)
    package = f"`apt-get install {_PACKAGES[part]}`, or " if part in _PACKAGES else ""
    return (
        f"{package}in a checkout of Strongroom `{_pip()} install "
        f"'./appliance/engine[{wanted}]'`{_NEEDS.get(part, '')}"
    )


def _pip() -> str:
    return f"{printable(sys.executable)} -m pip"
