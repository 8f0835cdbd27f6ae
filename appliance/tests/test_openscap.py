"""What OpenSCAP says of an appliance that is set up: every rule holds, or a waiver says why it need not."""

from __future__ import annotations

import pytest
from openscap import audit, waivers


@pytest.fixture(scope="module")
def found(life):
    return audit(life)


def test_every_rule_of_openscap_holds_or_is_waived_with_a_reason(found, tell):
    waived = waivers()
    held = found.with_result("pass", "fixed")
    applied = held | found.with_result("fail", "error", "unknown", "notchecked")
    tell(
        f"OpenSCAP: score {found.score:.1f} of 100, {len(held)} of {len(applied)} rules hold, {len(waived)} are waived"
    )
    assert len(applied) > 100
    assert sorted(applied - held - set(waived)) == []


def test_no_rule_is_waived_that_holds(found):
    assert sorted(set(waivers()) & found.with_result("pass", "fixed")) == []
    assert all(reason for reason in waivers().values())
