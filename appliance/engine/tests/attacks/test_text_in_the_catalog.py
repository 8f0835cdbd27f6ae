"""An agent's report holds whatever no database likes; it ends its own run, and nothing else."""

from __future__ import annotations

import pytest

from kit.director_in_process import TestDirector, client, in_loop, job
from kit.virtual_time import ShiftedTime
from strongroom.service.exposition import exposition

ODD = [
    "\0",
    "\\u0000",
    "x'; drop table runs; --",
    "%s %(a)s :b $1 ?",
    "\u202e\x1b[2J",
    "\U0001f600" * 5000,
]


@pytest.fixture(params=["sqlite", "postgresql"])
def director(request, tmp_path, monkeypatch):
    made = TestDirector(tmp_path, ShiftedTime(monkeypatch))
    text = client("web1") + client("web2") + job("nightly") + job("other", "web2")
    if request.param == "sqlite":
        made.configure(text)
        yield made
        return
    cluster = request.getfixturevalue("cluster")
    database = cluster.new_database().database
    place = f'DbName = {database}; DbUser = strongroom; DbSocket = "{cluster.folder}"'
    made.configure(text, catalog=f"Catalog {{ Name = P; {place} }}")
    yield made


@in_loop
async def test_a_report_of_odd_texts_is_stored_and_shown(director):
    agent, other = await director.with_agent(), await director.agent("web2")
    for odd in ODD:
        run = await director.start("nightly")
        await agent.start(run.id)
        await agent.log(run.id, odd)
        data = {odd: {odd: [odd, 1e308, -1, 10**400, True, None]}}
        await director.end(
            agent, run.id, "failed", summary=data, security=data, error=odd, error_id=odd
        )
        assert agent.unacknowledged == []
        ended = await director.run(run.id)
        assert ended.state == "failed"
        assert await director.service.queries.log(run.id)
        assert exposition(await director.service.queries.metrics())
        assert (await director.service.queries.status()).recent
        second = await director.start("other")
        await other.start(second.id)
        await director.end(other, second.id)
        assert (await director.run(second.id)).state == "done"
