"""The baselines of many machines on one HTML page that needs nothing else: side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

import msgspec

from strongroom.base.printable import printable
from strongroom.cli.measure.charts import bar_chart
from strongroom.cli.measure.profile import Profile, Transfer
from strongroom.cli.measure.report import MEGA, page, table
from strongroom.cli.measure.verdict import Prediction, Work, predictions

_TITLE = "Baselines of the fleet"


def fleet_report(profiles: Mapping[str, Profile]) -> str:
    """The page of machines by name, slowest full backup first. Names are escaped."""
    named = [
        msgspec.structs.replace(one, machine=msgspec.structs.replace(one.machine, host=name))
        for name, one in profiles.items()
    ]
    ordered = sorted(named, key=_full_rate)
    blocks = [
        f"<h1>{_TITLE}</h1>",
        f'<p class="note">{len(ordered)} machines, the slowest full backup first.</p>',
        *_verdicts(ordered),
        *_charts(ordered),
        *_machines(ordered),
        *_notes(ordered),
    ]
    return page(_TITLE, blocks)


def _prediction(profile: Profile, work: Work) -> Prediction | None:
    return next((one for one in predictions(profile) if one.work == work), None)


def _full_rate(profile: Profile) -> float:
    found = _prediction(profile, "full")
    return found.bytes_per_second if found else 0.0


def _name(profile: Profile) -> str:
    return printable(profile.machine.host)


def _verdicts(profiles: Sequence[Profile]) -> Iterator[str]:
    yield "<h2>What bounds their backups</h2>"
    rows = []
    for profile in profiles:
        full, again = _prediction(profile, "full"), _prediction(profile, "incremental")
        rows.append(
            (
                _name(profile),
                f"{full.files_per_second:,.0f}" if full else "",
                f"{full.bytes_per_second / MEGA:,.0f}" if full else "",
                full.bound if full else "",
                f"{again.files_per_second:,.0f}" if again else "",
                again.bound if again else "",
            )
        )
    heads = ("machine", "full: files/s", "MB/s", "bound", "incremental: files/s", "bound")
    yield table("Predicted backups", heads, rows)
    yield '<p class="note">Predicted by a model without deduplication.</p>'


def _charts(profiles: Sequence[Profile]) -> Iterator[str]:
    yield "<h2>Side by side</h2>"
    figures: tuple[tuple[str, Callable[[Profile], float | None]], ...] = (
        ("First walk, entries a second", _walk),
        ("Random reads of 4 KiB a second, at best", _random_reads),
        ("Sending to the storage daemon, MB a second at best", _sending),
        ("Sending by iperf3, MB a second at best", _by_iperf3),
        ("zstd1 on all cores, MB a second", _codec),
    )
    for title, figure in figures:
        bars = [(_name(one), value) for one in profiles if (value := figure(one)) is not None]
        if bars:
            yield bar_chart(title, bars, lambda value: f"{value:,.0f}")


def _walk(profile: Profile) -> float | None:
    return None if profile.tree is None else profile.tree.walks[0].entries_per_second


def _random_reads(profile: Profile) -> float | None:
    if profile.disk is None:
        return None
    return max((one.reads_per_second for one in profile.disk.random_reads), default=None)


def _sending(profile: Profile) -> float | None:
    return None if profile.network is None else _most_sent(profile.network.transfers)


def _by_iperf3(profile: Profile) -> float | None:
    return None if profile.iperf3 is None else _most_sent(profile.iperf3.transfers)


def _most_sent(transfers: Sequence[Transfer]) -> float | None:
    sent = (one for one in transfers if one.direction == "send")
    return max((one.bytes_per_second / MEGA for one in sent), default=None)


def _codec(profile: Profile) -> float | None:
    speed = profile.speed("zstd1")
    return None if speed is None else speed.all_cores / MEGA


def _machines(profiles: Sequence[Profile]) -> Iterator[str]:
    yield "<h2>The machines</h2>"
    rows = []
    for one in profiles:
        machine, tree, network = one.machine, one.tree, one.network
        rows.append(
            (
                _name(one),
                printable(machine.processor),
                str(machine.cores),
                f"{machine.memory_bytes / (1 << 30):.1f}",
                f"{tree.entries:,}" if tree else "",
                f"{tree.size_bytes / MEGA:,.0f}" if tree else "",
                f"{network.rtt_us / 1000:.2f}" if network else "",
                one.taken_at[:16],
            )
        )
    heads = ("machine", "processor", "cores", "GiB", "entries", "MB", "RTT ms", "measured")
    yield table("What they are", heads, rows)


def _notes(profiles: Sequence[Profile]) -> Iterator[str]:
    notes = [(_name(one), note) for one in profiles for note in one.notes]
    if notes:
        yield "<h2>Notes</h2>"
        yield from (f"<p>{escape(name)}: {escape(printable(note))}</p>" for name, note in notes)
