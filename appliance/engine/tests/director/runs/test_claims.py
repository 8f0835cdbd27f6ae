"""What an agent that was taken over says harms no one but its own client."""

from __future__ import annotations

import logging
import platform

import pytest
from sqlalchemy import insert

import strongroom
from kit.director_in_process import client, in_loop, job
from strongroom.base import clock
from strongroom.base.errors import ProtocolError
from strongroom.director.catalog.runs import find_runs, load_run, new_run_id
from strongroom.director.catalog.storable import MOST_DATA_DEPTH
from strongroom.director.catalog.tables import RUNS
from strongroom.director.http.bodies import Page
from strongroom.director.results.runs import Run, RunFilter
from strongroom.director.runs.agent_limits import Undeliverable, bounded_hello
from strongroom.director.shown_text import LONGEST_LOGGED
from strongroom.net.control.messages import (
    PROTOCOL_VERSION,
    Hello,
    RunEnded,
    RunLog,
    RunProgress,
    decode_for_director,
    encode,
)
from strongroom.service.exposition import exposition

LEFT_OUT = {"left_out": "it was too long, or too deep"}
FORGED = "x\nstrongroom: agent web2 was revoked \x1b[2J"


def nested(depth):
    found = []
    for _ in range(depth - 1):
        found = [found]
    return found


async def one_run(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    return agent, (await director.start("nightly")).id


def answered(runs):
    """What the API makes of runs."""
    return Page[Run](items=list(runs)).model_dump_json(by_alias=True)


@in_loop
async def test_data_that_is_nested_too_deep_is_not_kept(director):
    agent, run_id = await one_run(director)
    summary = {"files": 7, "a": nested(300)}
    security = {"b": {"c": nested(MOST_DATA_DEPTH)}}
    await director.end(agent, run_id, "failed", summary=summary, security=security)
    run = await director.run(run_id)
    assert (run.summary, run.security, run.files) == (LEFT_OUT, LEFT_OUT, 7)
    assert "too deep" in answered(await director.runs())
    assert "too deep" in answered((await director.service.queries.status()).recent)


@pytest.mark.parametrize("depth", [300, 800])
@in_loop
async def test_data_of_any_depth_that_can_be_read_ends_its_run(director, depth):
    agent, run_id = await one_run(director)
    await director.end(agent, run_id, "failed", summary={"a": nested(depth)})
    assert (await director.run(run_id)).summary == LEFT_OUT
    assert agent.unacknowledged == []


@in_loop
async def test_data_as_deep_as_may_be_and_a_number_beyond_all_are_kept_and_shown(director):
    _, run_id = await one_run(director)
    sound = {"a": nested(MOST_DATA_DEPTH - 1)}
    ended = RunEnded(
        run_id=run_id, sequence=1, time_ns=1, status="failed", exit_code=1, summary=sound
    )
    said = encode(ended).replace(b'"security":{}', b'"security":{"n":1%s}' % (b"0" * 100))
    await director.service.agents.on_message("web1", decode_for_director(said))
    await director.settle()
    run = await director.run(run_id)
    assert (run.state, run.summary, run.security) == ("failed", sound, {"n": 10**100})
    assert "0" * 100 in answered([run])


def test_deep_data_that_is_in_the_catalog_already_spoils_no_answer(catalog):
    record = Run(id=new_run_id(), job="nightly", kind="backup", state="done")
    row = {column.name: getattr(record, column.name) for column in RUNS.columns}
    with catalog.writing() as connection:
        deep = {"summary": {"a": nested(300)}, "security": {"a": nested(700)}}
        connection.execute(insert(RUNS), [{**row, **deep}])
    assert load_run(catalog, record.id).summary == LEFT_OUT
    found = find_runs(catalog, RunFilter())
    assert [one.security for one in found] == [LEFT_OUT]
    assert record.id in answered(found)


@pytest.mark.parametrize("said", ["x", "", None, [], {"a": 1}, "nan", "yes", 1])
def test_figures_outlive_any_word_of_an_agent(director, said):
    @in_loop
    async def whole(director):
        agent, run_id = await one_run(director)
        security = {"ktls_send": said, "ktls_receive": True, "mode": said, "cipher": FORGED}
        summary = dict.fromkeys(("files", "size_bytes", "stored_bytes", "problems"), said)
        await director.end(agent, run_id, security=security, summary=summary)
        assert all(line.text.isprintable() for line in await director.service.queries.log(run_id))
        found = exposition(await director.service.queries.metrics()).decode()
        labels = '{backup_job="nightly",client="web1"}'
        assert f"strongroom_backup_ktls_send{labels} 0.0\n" in found
        assert f"strongroom_backup_ktls_receive{labels} 1.0\n" in found

    whole(director=director)


@in_loop
async def test_what_an_agent_says_of_itself_is_bounded(director):
    agent, _ = await one_run(director)
    hello = Hello(
        name="web1",
        protocol=PROTOCOL_VERSION,
        version="v\n\0" + "v" * 5_000_000,
        platform="p\n" + "p" * 5_000_000,
        boot_id="b" * 5_000_000,
        clock_ns=1,
        features=("f" * 5_000_000, *(f"feature{number}" for number in range(1000))),
        workers=10**4000,
        runs=("r" * 5_000_000, *(f"{number:032x}" for number in range(9000))),
    )
    await director.service.agents.on_connected("web1", hello, "192.0.2.1")
    (known,) = await director.service.queries.clients()
    assert known.workers == 1 << 16
    assert (known.version, known.platform, len(known.features)) == ("", "", 99)
    assert len(exposition(await director.service.queries.metrics())) < 20_000
    assert len(agent.cancelled) <= 4096
    await director.service.agents.on_connected(
        "web1",
        Hello(
            **{name: getattr(hello, name) for name in ("name", "protocol", "clock_ns")},
            version="1",
            platform="p",
            workers=-5,
        ),
        "192.0.2.1",
    )
    assert (await director.service.queries.clients())[0].workers == 0


TEMPLATE = "{{ lookup('pipe', 'touch /tmp/x') }}"


@pytest.mark.parametrize("text", [TEMPLATE, "1" + TEMPLATE, "1\n", "$(id)", "1.0`id`", "1;id", "é"])
def test_nothing_of_a_hello_is_kept_but_what_an_agent_of_ours_sends(director, text):
    @in_loop
    async def whole(director):
        agent, _ = await one_run(director)
        hello = Hello(
            name="web1",
            protocol=PROTOCOL_VERSION,
            clock_ns=1,
            version=text,
            platform=text,
            boot_id=text,
            features=("ktls", text),
            runs=(text,),
        )
        await director.service.agents.on_connected("web1", hello, "192.0.2.1")
        (known,) = await director.service.queries.clients()
        assert (known.version, known.platform, known.features) == ("", "", ("ktls",))
        kept = director.service.context.hellos["web1"]
        assert (kept.boot_id, kept.runs) == ("", ())
        assert text not in agent.cancelled

    whole(director=director)


def test_what_this_machine_says_of_itself_is_kept():
    said = Hello(
        name="web1",
        protocol=PROTOCOL_VERSION,
        clock_ns=1,
        version=strongroom.__version__,
        platform=platform.platform(),
        boot_id=clock.boot_id(),
        features=("backup", "xattr", "unshare", "ktls"),
        runs=(new_run_id(),),
    )
    assert bounded_hello(said) == said


@in_loop
async def test_the_message_of_progress_is_bounded(director):
    _, run_id = await one_run(director)
    progress = RunProgress(run_id=run_id, files=1, message=FORGED + "m" * 5_000_000)
    await director.service.agents.on_message("web1", progress)
    (run,) = (await director.service.queries.status()).active
    assert len(run.message) == LONGEST_LOGGED
    assert run.message.isprintable()
    assert run.message.startswith("x\\nstrongroom")


@in_loop
async def test_an_agent_forges_no_lines_of_the_log(director, caplog):
    caplog.set_level(logging.DEBUG)
    agent, run_id = await one_run(director)
    stranger = RunLog(run_id=FORGED, sequence=1, time_ns=1, level="info", text="x")
    await director.service.agents.on_message("web1", stranger)
    report = Undeliverable(run_id, 1, "run-ended", "done")
    wrong = ProtocolError(f"it cannot be decoded: {FORGED}{'y' * 10_000}")
    await director.service.agents.on_undeliverable("web1", report, wrong)
    await agent.connect()
    about = [one for one in caplog.records if "not its own" in one.msg or "processed" in one.msg]
    assert len(about) == 2
    for one in about:
        assert one.getMessage().isprintable()
        assert len(one.getMessage()) < 2 * LONGEST_LOGGED
        assert one.exc_info is None
    ended = await director.run(run_id)
    assert ended.error.isprintable()
