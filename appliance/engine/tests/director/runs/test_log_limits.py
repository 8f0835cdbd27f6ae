"""What agents make the director log: some of each, and how much more there would have been."""

from __future__ import annotations

import logging

from strongroom.service.log_lines import MOST_A_MINUTE, LimitedLines


def test_one_agent_fills_no_log_and_keeps_no_other_out_of_it(monkeypatch, caplog):
    now = [100.0]
    monkeypatch.setattr("strongroom.base.clock.elapsed_seconds", lambda: now[0])
    lines = LimitedLines(
        logging.getLogger("agents"), "{count} more lines about the reports of agent {topic}"
    )
    for number in range(MOST_A_MINUTE + 3):
        lines.log("50%d", logging.WARNING, "line %d", number)
    lines.log("web1", logging.ERROR, "failed", fault=ValueError("why"))
    assert caplog.messages == [*(f"line {one}" for one in range(MOST_A_MINUTE)), "failed"]
    assert caplog.records[-1].levelno == logging.ERROR
    assert "ValueError: why" in caplog.text
    caplog.clear()
    now[0] += 61
    lines.flush()
    lines.log("50%d", logging.WARNING, "again")
    assert caplog.messages == ["3 more lines about the reports of agent 50%d", "again"]
