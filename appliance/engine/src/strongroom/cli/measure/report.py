"""The results as one HTML page that needs nothing else: tables, charts, the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from strongroom.base.printable import printable
from strongroom.cli.measure.charts import Series, bar_chart, line_chart
from strongroom.cli.measure.profile import DiskProfile, Profile, Tree, transfer_rows
from strongroom.cli.measure.verdict import predictions, sentences
from strongroom.cli.measure.wording import (
    acceleration_sentence,
    attributes_sentence,
    iperf3_sentence,
    network_sentence,
)

MEGA = 1e6

_STYLE = """
:root{--ink:#0f172a;--dim:#64748b;--ground:#fff;--line:#e2e8f0;--a:#0f766e;--b:#b45309;--c:#6d28d9;--d:#be123c}
@media(prefers-color-scheme:dark){:root{--ink:#e2e8f0;--dim:#94a3b8;--ground:#0f172a;--line:#334155;
--a:#2dd4bf;--b:#fbbf24;--c:#c4b5fd;--d:#fb7185}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);max-width:56rem;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem;border-bottom:1px solid var(--line)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}
th,td{padding:.25rem .9rem .25rem 0;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}th{color:var(--dim);font-weight:600}
figure{margin:1.5rem 0}figcaption{font-weight:600}svg{width:100%;height:auto;font-size:12px}
text{fill:var(--ink)}.grid{stroke:var(--line)}.bar{fill:var(--a)}.line{fill:none;stroke-width:2}
.line.s0{stroke:var(--a)}.line.s1{stroke:var(--b)}.line.s2{stroke:var(--c)}.line.s3{stroke:var(--d)}
.dot.s0{fill:var(--a)}.dot.s1{fill:var(--b)}.dot.s2{fill:var(--c)}.dot.s3{fill:var(--d)}
caption{text-align:left;font-weight:600}.line.s4{stroke:#3b82f6}.dot.s4{fill:#3b82f6}
.line.s5{stroke:#65a30d}.dot.s5{fill:#65a30d}
.note{color:var(--dim)}
"""


def html_report(profile: Profile) -> str:
    """The page. Names that come from the machine are escaped."""
    machine = profile.machine
    title = f"Baseline of {printable(machine.host)}"
    blocks = [
        f"<h1>{escape(title)}</h1>",
        (
            f'<p class="note">{escape(profile.taken_at)}, {escape(printable(machine.processor))}, '
            f"{machine.cores} cores, {machine.memory_bytes / (1 << 30):.1f} GiB of memory "
            f"({machine.available_bytes / (1 << 30):.1f} free), kernel {escape(machine.kernel)}</p>"
        ),
        *_verdict(profile),
    ]
    if profile.tree is not None:
        blocks += _tree(profile.tree)
    if profile.disk is not None:
        blocks += _disk(profile.disk)
    if profile.network is not None or profile.iperf3 is not None:
        blocks += _network(profile)
    if profile.speeds:
        blocks += _processor(profile)
    if profile.notes:
        blocks.append("<h2>Notes</h2>")
        blocks += [f"<p>{escape(printable(note))}</p>" for note in profile.notes]
    return page(title, blocks)


def page(title: str, blocks: Iterable[str]) -> str:
    """A page of blocks of HTML."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>"
        + "\n".join(blocks)
        + "</main></body></html>\n"
    )


def _verdict(profile: Profile) -> Iterator[str]:
    found = predictions(profile)
    if not found:
        return
    yield "<h2>What bounds a backup here</h2>"
    rows = [
        (
            one.work,
            f"{one.files_per_second:,.0f}" if one.work != "image" else "",
            f"{one.bytes_per_second / MEGA:,.0f}",
            one.bound,
            *(f"{one.seconds_of(stage):,.1f}" if stage in one.stages else ""
              for stage in ("disk", "processor", "network")),
        )
        for one in found
    ]  # fmt: skip
    heads = ("backup", "files/s", "MB/s", "bound", "disk s", "processor s", "network s")
    yield table("Predicted backups", heads, rows)
    for one in found:
        yield f"<p><strong>{one.work.capitalize()}:</strong> {escape(' '.join(sentences(one)))}</p>"
    yield ('<p class="note">Predicted by a model without deduplication. The image is 100 GiB.</p>')


def _tree(tree: Tree) -> Iterator[str]:
    yield f"<h2>The tree {escape(printable(tree.folder))}</h2>"
    yield (
        f"<p>{tree.files:,} files in {tree.directories:,} folders, "
        f"{tree.size_bytes / MEGA:,.0f} MB; zstd1 makes 1/{tree.ratio:.1f} of it.</p>"
    )
    rows = [
        (
            walk.state,
            f"{walk.entries:,}",
            f"{walk.seconds:.2f}",
            f"{walk.entries_per_second:,.0f}",
            "not counted" if walk.read_ios is None else f"{walk.read_ios:,}",
            f"{walk.entries / walk.read_ios:,.1f}" if walk.read_ios else "",
        )
        for walk in tree.walks
    ]
    yield table(
        "Walks of the tree",
        ("walk", "entries", "seconds", "entries/s", "reads", "entries a read"),
        rows,
    )
    if tree.reads_uncounted:
        yield f'<p class="note">Reads are not counted: {escape(tree.reads_uncounted)}.</p>'
    bars = [(walk.state, walk.entries_per_second) for walk in tree.walks]
    yield bar_chart("Stat rate, entries a second", bars, lambda value: f"{value:,.0f}")
    yield (
        f"<p>Extended attributes: {escape(attributes_sentence(tree))}.</p>"
        f"<p>Open, read and close of a small file {tree.open_us:.1f} µs ({tree.sampled:,} of "
        f"them); reading one file after the other {tree.content_bytes_per_second / MEGA:,.0f} MB/s"
        f"{'' if tree.content_is_cold else ', from memory'}.</p>"
    )


def _disk(disk: DiskProfile) -> Iterator[str]:
    kind = {None: "", True: ", rotates", False: ", does not rotate"}[disk.rotates]
    yield f"<h2>The disk below {escape(printable(disk.folder))}</h2>"
    yield (
        f"<p>{escape(disk.device or 'no block device')}, {escape(disk.file_system)}{kind}"
        f"{'' if disk.is_direct else '; through the page cache, so too good'}.</p>"
    )
    reads = disk.random_reads
    yield line_chart(
        "Random reads of 4 KiB a second",
        "reads under way",
        [Series("reads", [(one.depth, one.reads_per_second) for one in reads])],
        lambda value: f"{value:,.0f}",
    )
    yield line_chart(
        "Latency of random reads",
        "reads under way",
        [
            Series("median", [(one.depth, one.p50_us) for one in reads]),
            Series("95%", [(one.depth, one.p95_us) for one in reads]),
            Series("99%", [(one.depth, one.p99_us) for one in reads]),
        ],
        lambda value: f"{value:,.0f} µs",
    )
    yield line_chart(
        "Streaming, MB a second",
        "KiB a block",
        [
            Series(
                direction,
                [
                    (one.block_bytes >> 10, one.bytes_per_second / MEGA)
                    for one in disk.streaming
                    if one.direction == direction
                ],
            )
            for direction in ("read", "write")
        ],
        lambda value: f"{value:,.0f}",
    )


def _network(profile: Profile) -> Iterator[str]:
    yield "<h2>The network</h2>"
    if profile.network is not None:
        yield _way(profile.network.server, network_sentence(profile.network))
    if profile.iperf3 is not None:
        yield _way(profile.iperf3.server, iperf3_sentence(profile.iperf3))
    rows = transfer_rows(profile)
    series = [
        Series(
            f"{direction}{suffix}",
            [
                (row.streams, rate / MEGA)
                for row in rows
                if row.direction == direction
                and (rate := row.iperf3 if suffix else row.daemon) is not None
            ],
        )
        for suffix in ("", ", iperf3")
        for direction in ("send", "receive")
    ]
    yield line_chart(
        "MB a second by connections",
        "connections at once",
        [one for one in series if one.points],
        lambda value: f"{value:,.0f}",
    )
    yield table(
        "Rates of the network",
        ("direction", "connections", "MB/s, storage daemon", "MB/s, iperf3"),
        [
            (row.direction, str(row.streams), _megabytes(row.daemon), _megabytes(row.iperf3))
            for row in rows
        ],
    )


def _way(server: str, sentence: str) -> str:
    return f"<p>To {escape(printable(server))}: {escape(sentence)}.</p>"


def _megabytes(rate: float | None) -> str:
    return "" if rate is None else f"{rate / MEGA:,.0f}"


def _processor(profile: Profile) -> Iterator[str]:
    yield "<h2>The processor</h2>"
    yield f"<p>{escape(acceleration_sentence(profile.machine))}.</p>"
    rows = [
        (
            speed.name,
            speed.kind,
            f"{speed.one_core / MEGA:,.0f}",
            f"{speed.all_cores / MEGA:,.0f}",
            f"{speed.ratio:.1f}" if speed.ratio else "",
        )
        for speed in profile.speeds
    ]
    yield table("Speeds", ("what", "kind", "MB/s, a core", "MB/s, all cores", "ratio"), rows)
    bars = [
        (speed.name, speed.one_core / MEGA) for speed in profile.speeds if speed.kind == "codec"
    ]
    yield bar_chart("Codecs, MB a second on one core", bars, lambda value: f"{value:,.0f}")


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; texts are escaped here."""
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(one)}</td>" for one in row) + "</tr>" for row in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
