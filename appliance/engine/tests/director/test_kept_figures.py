"""What is kept of the figures between two scrapes is what the catalog has."""

from __future__ import annotations

import gzip

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kit.director_in_process import OPERATOR, client, in_loop, job
from strongroom.base.errors import CatalogUnavailableError
from strongroom.director import kept_figures
from strongroom.director.catalog.clients import change_client
from strongroom.director.catalog.runs import last_ends, load_run
from strongroom.director.catalog.snapshots import note_removed, note_returned
from strongroom.director.catalog.upkeep import (
    redate,
    remove_old_runs,
    remove_old_snapshots,
)
from strongroom.director.clock_guard import WrongTimes
from strongroom.director.metrics import permitted
from strongroom.service.exposition import Metric, exposition, gzip_of

SECOND_NS = 1_000_000_000
ALL = ("web1", "web2")


def parsed(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            of = (sample.name, tuple(sorted(sample.labels.items())))
            assert of not in found
            found[of] = sample.value
    return found


def only_web1(kind: str, name: str) -> bool:
    return kind == "storage" or name in ("", "web1", "nightly-web1", "test-web1", "prune")


async def same(director, number_of=None):
    """The kept text, which must say what is read anew, to who may see all and who may not."""
    queries = director.service.queries
    pieces = await queries.exposition()
    text = b"".join(one.text for one in pieces)
    assert gzip.decompress(gzip_of(pieces)) == text
    kept = parsed(text)
    assert kept == parsed(exposition(await queries.metrics()))
    some = await queries.exposition(only_web1, permits_every=False)
    limited = parsed(b"".join(one.text for one in some))
    assert limited == parsed(exposition(await queries.metrics(only_web1)))
    assert any(value == "web2" for _, labels in kept for _, value in labels)
    assert not any(value == "web2" for _, labels in limited for _, value in labels)
    return kept


@in_loop
async def test_what_is_kept_is_what_is_read_anew_whatever_happens(director):
    text = "".join(
        client(name)
        + job(f"nightly-{name}", name)
        + job(f"test-{name}", name, f"Level = Data; Job To Verify = nightly-{name}", "Verify")
        for name in ALL
    )
    text += job("prune", "web1", kind="Backup")
    await director.open(text)
    context = director.service.context
    await same(director)
    agents = {name: await director.agent(name) for name in ALL}
    await same(director)
    number = 0
    for status in ("done", "failed", "done", "incomplete"):
        for name in ALL:
            run = await director.start(f"nightly-{name}")
            await same(director)
            director.time.pass_by(60)
            number += 1
            summary = {
                "stage_seconds": {"read": number},
                "files_read": number,
                "problems": number % 3,
            }
            more = {"snapshot": f"{number:064x}"} if status == "done" else {}
            await director.end(agents[name], run.id, status, summary=summary, **more)
            await same(director)
    for name in ALL:
        run = await director.start(f"test-{name}")
        director.time.pass_by(60)
        await director.end(agents[name], run.id, "done")
    await same(director)
    (test,) = [
        one for one in await director.service.queries.restore_tests() if one.client == "web2"
    ]
    (last,) = [one for one in last_ends(context.catalog, "verify") if one.client == "web2"]
    assert test.id == last.id
    # A job that only waits, an agent that goes, one whose clock is wrong.
    director.link.agents.pop("web2")
    context.hellos.pop("web2")
    await director.queue("nightly-web2")
    await same(director)
    change_client(context.catalog, "web1", clock_ahead_ns=7 * SECOND_NS)
    found = await same(director)
    assert found["strongroom_agent_clock_ahead_seconds", (("client", "web1"),)] == 7
    change_client(context.catalog, "joined", enrolled_ns=context_now(director))
    await same(director)
    # Snapshots go and come back; rows of the past go.
    ids = [f"{one:064x}" for one in range(1, number + 1)]
    note_removed(context.catalog, ids, context_now(director), "gone from the repository")
    found = await same(director)
    assert ("strongroom_snapshots", (("client", "web1"),)) not in found
    note_returned(context.catalog, ids, "gone from the repository")
    await same(director)
    director.time.pass_by(100)
    now_ns = context_now(director)
    note_removed(context.catalog, ids, now_ns - 1, "by hand")
    assert remove_old_runs(context.catalog, now_ns)
    remove_old_snapshots(context.catalog, now_ns)
    await same(director)
    redate(context.catalog, WrongTimes(now_ns - 3600 * SECOND_NS, now_ns, 86400 * SECOND_NS))
    await same(director)
    # A job and a client that are gone, and a day later.
    director.configure(client("web1") + job("nightly-web1", "web1") + client("web2"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    await same(director)
    director.time.pass_by(86400)
    await same(director)


def context_now(director) -> int:
    return director.time.now_ns


@in_loop
async def test_what_could_not_be_read_is_read_at_the_next_scrape(director, monkeypatch):
    agent = await director.with_agent(client("web1") + client("web2") + job("nightly"))
    await same(director)
    await director.backed_up(agent, (await director.start("nightly")).id, 1)

    def fails(*_):
        raise CatalogUnavailableError("it is unreachable")

    with monkeypatch.context() as patch:
        patch.setattr(kept_figures, "totals_by_place", fails)
        with pytest.raises(CatalogUnavailableError):
            await director.service.queries.exposition()
    found = await same(director)
    assert found["strongroom_snapshots", (("client", "web1"),)] == 1


def leave_unfinished(catalog):
    with catalog.writing() as connection:
        connection.exec_driver_sql("DELETE FROM runs")
        raise ZeroDivisionError


@in_loop
async def test_a_change_that_failed_is_no_harm_and_one_after_the_other_is_seen(director):
    agent = await director.with_agent(client("web1") + client("web2") + job("nightly"))
    catalog = director.service.context.catalog
    run = await director.start("nightly")
    with pytest.raises(ZeroDivisionError):
        leave_unfinished(catalog)
    assert load_run(catalog, run.id)
    await same(director)
    await director.end(agent, run.id, "done")
    await same(director)


@in_loop
async def test_many_changes_at_once_are_read_as_a_whole(director, monkeypatch):
    monkeypatch.setattr(kept_figures, "_MOST_NAMES", 1)
    text = "".join(client(name) + job(f"nightly-{name}", name) for name in ALL)
    await director.open(text)
    await same(director)
    for number, name in enumerate(ALL, 1):
        agent = await director.agent(name)
        await director.backed_up(agent, (await director.start(f"nightly-{name}")).id, number)
    await same(director)


def test_lines_are_as_prometheus_reads_them():
    odd = 'a"b\\c\nd\udcfe'
    labels = {"backup_job": odd, "client": "é"}
    found = exposition(
        [
            Metric(
                "strongroom_backup_files",
                ((labels, 1e21), ({**labels, "client": ""}, float("inf"))),
            )
        ]
    )
    (family,) = text_string_to_metric_families(found.decode())
    assert family.type == "gauge"
    shown = odd.encode("utf-8", "backslashreplace").decode()
    assert [
        (one.labels["backup_job"], one.labels["client"], one.value) for one in family.samples
    ] == [
        (shown, "é", 1e21),
        (shown, "", float("inf")),
    ]
    assert (
        permitted(Metric("strongroom_snapshots", (({"client": "web2"}, 1.0),)), only_web1).samples
        == ()
    )
