"""The configuration that Bareos ships loads without a finding.

Its files are not ours to carry: where a copy is at hand STRONGROOM_BAREOS_DEFAULTS names the
folder. A tree of the same kind, in data/site, is always read.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strongroom.config.trees.loader import LoadOptions, load_trees

DEFAULTS = os.environ.get("STRONGROOM_BAREOS_DEFAULTS", "")
SITE = Path(__file__).parent / "data" / "site"


@pytest.mark.parametrize("strict", [False, True])
def test_a_tree_of_the_usual_kind_has_no_finding(strict):
    loaded = load_trees(str(SITE), LoadOptions(strict=strict))
    assert [one.head() for one in loaded.diagnostics.entries] == []
    assert {name: len(found.blocks) for name, found in loaded.trees.items()} == {
        "director": 14,
        "storage": 3,
        "agent": 4,
        "console": 1,
        "monitor": 1,
    }


@pytest.mark.skipif(not DEFAULTS, reason="STRONGROOM_BAREOS_DEFAULTS names no folder")
@pytest.mark.parametrize("strict", [False, True])
def test_the_shipped_tree_has_no_finding(strict):
    loaded = load_trees(DEFAULTS, LoadOptions(strict=strict))
    assert [one.head() for one in loaded.diagnostics.entries] == []
    assert sorted(loaded.trees) == ["agent", "director", "monitor", "storage"]


@pytest.mark.parametrize("tree", [str(SITE), *([DEFAULTS] if DEFAULTS else [])])
def test_every_scheduled_run_of_such_a_tree_can_be_planned(tree, config):
    assert "error: " not in config("check", tree).stdout
