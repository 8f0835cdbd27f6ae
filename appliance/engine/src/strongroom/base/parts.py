"""The optional parts of an installation, and what to say where a library is missing.

The package itself installs what every command of a user needs. The parts here are left out, as most
machines do without them.
"""

from __future__ import annotations

import sys
from typing import Final

from strongroom import __version__
from strongroom.base.errors import MissingPartError
from strongroom.base.printable import printable

# The parts of pyproject.toml -> what they bring, as it is imported.
_LIBRARIES: Final = {
    "director": frozenset(
        ("alembic", "fastapi", "h11", "jinja2", "pydantic", "sqlalchemy", "starlette", "uvicorn")
    ),
    "postgresql": frozenset(("psycopg",)),
    "lzo": frozenset(("lzo",)),
    "s3": frozenset(("botocore", "jmespath", "dateutil", "urllib3")),
}
# A catalog in PostgreSQL is the director's.
_TOGETHER: Final = {"postgresql": "director,postgresql"}
_PURPOSES: Final = {
    "director": "the director",
    "postgresql": "a catalog in PostgreSQL",
    "lzo": "LZO compression",
    "s3": "an access key of an object store that is not in AWS_ACCESS_KEY_ID or ~/.aws/credentials",
}
# The project's own packages that have a part.
_PACKAGES: Final = {
    "director": "strongroom-director",
    "postgresql": "strongroom-director",
    "s3": "strongroom",
}
# A file, as anybody could publish something under a mere name.
_WHEEL: Final = f"./wheels/strongroom-{__version__}-py3-none-any.whl"


def missing_library(library: str) -> MissingPartError:
    """The error for `library`, which could not be imported."""
    top = library.partition(".")[0]
    for part, libraries in _LIBRARIES.items():
        if top in libraries:
            return MissingPartError(f"{_PURPOSES[part]} needs the library {top}: {remedy(part)}")
    return MissingPartError(
        f"the library {printable(top)}, which every command needs, is not installed, so this "
        "installation is not whole: `apt-get install --reinstall strongroom`, or in the folder of "
        f"the release `{_pip()} {_WHEEL}`"
    )


def remedy(part: str) -> str:
    """How to install `part`: from the project's Debian packages, or by pip from the release."""
    if part == "lzo":
        return (
            f"`{printable(sys.executable)} -m pip install python-lzo` "
            "(Debian's liblzo2-dev, python3-dev and gcc first)"
        )
    wanted = _TOGETHER.get(part, part)
    return (
        f"`apt-get install {_PACKAGES[part]}`, or in the folder of the release "
        f"`{_pip()} '{_WHEEL}[{wanted}]'`"
    )


def _pip() -> str:
    return f"{printable(sys.executable)} -m pip install --no-index --find-links wheels"
