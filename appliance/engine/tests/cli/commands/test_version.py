"""version tells what a bug report needs."""

import json
import platform
from importlib import metadata

from strongroom import __version__


def test_people_get_the_version_first(strongroom):
    assert strongroom("version").stdout.splitlines()[0] == f"strongroom {__version__}"


def test_programs_get_the_versions_of_the_libraries(strongroom):
    answer = json.loads(strongroom("version", "--json").stdout)
    assert answer["version"] == __version__ == metadata.version("strongroom")
    assert answer["python"] == platform.python_version()
    assert answer["openssl"].startswith("OpenSSL")
    assert answer["libraries"]["cryptography"] == metadata.version("cryptography")
    assert "pytest" not in answer["libraries"]
