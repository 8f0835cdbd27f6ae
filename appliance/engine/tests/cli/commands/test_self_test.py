"""self-test passes on a sound installation and names what is broken in another."""

import json

import pytest

from strongroom.base.errors import EXIT_DONE, SelfTestError
from strongroom.cli.commands.self_test import TESTS


def test_a_sound_installation_passes_every_test(strongroom):
    answer = strongroom("self-test", "--json")
    assert answer.returncode == EXIT_DONE, answer.stderr
    results = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [result["name"] for result in results] == list(TESTS)
    assert all(result["passed"] for result in results)


def test_people_see_a_line_for_each_test(strongroom):
    lines = strongroom("self-test").stdout.splitlines()
    assert lines[-1] == f"all {len(TESTS)} passed"
    assert len(lines) == len(TESTS) + 1


# A library that answers, but wrongly, and one that is not there at all.
BROKEN = {
    "wrong": "def xxh128(data):\n    class Digest:\n        def hexdigest(self):\n"
    "            return 'beef'\n    return Digest()\n",
    "missing": "raise ImportError('no such library')\n",
}


@pytest.mark.parametrize("fault", sorted(BROKEN))
def test_a_broken_library_is_named_and_nothing_else(strongroom, tmp_path, fault):
    (tmp_path / "xxhash.py").write_text(BROKEN[fault])
    answer = strongroom("self-test", "--json", PYTHONPATH=str(tmp_path))
    assert answer.returncode == SelfTestError.exit_code
    results = [json.loads(line) for line in answer.stdout.splitlines()]
    failed = [result for result in results if not result["passed"]]
    assert [result["name"] for result in failed] == ["signatures"]
    assert ("beef" if fault == "wrong" else "no such library") in failed[0]["problem"]
    assert "failed: signatures" in answer.stderr
