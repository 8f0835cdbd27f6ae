"""The verdict: profiles whose bound is known."""

import msgspec
import pytest

from strongroom.base.errors import UsageError
from strongroom.cli.measure.comparison import Measured, compare, comparison_sentences
from strongroom.cli.measure.profile import (
    DiskProfile,
    Machine,
    NetworkProfile,
    Profile,
    RandomReads,
    Speed,
    Streaming,
    Transfer,
    Tree,
    Walk,
    parse_profile,
    profile_json,
)
from strongroom.cli.measure.verdict import (
    START_SECONDS,
    backup_prediction,
    predictions,
    sentences,
)

MEGA = 1e6
FAST = {"memory copy": 5000, "chunk id": 3000, "aes-256-gcm": 2000, "zstd1": 400, "chunker": 3000}


def profile(
    *,
    walk_seconds=1.0,
    warm_seconds=0.5,
    read_rate=500 * MEGA,
    size_bytes=10e9,
    files=100_000,
    codec_rate=400 * MEGA,
    send_rate=0.0,
    cores=4,
    disk_rate=1000 * MEGA,
):
    """A machine with the given rates in bytes a second, a tree of 100,000 files of 10 GB."""
    network = None
    if send_rate:
        transfers = (Transfer("send", 1, send_rate / 2), Transfer("send", 4, send_rate))
        network = NetworkProfile("vault", "tls", 500, 10, 1448, 1500, "cubic", 0, 1000, transfers)
    return Profile(
        "2026-01-01",
        Machine("web1", "a processor", cores, ("aes",), 8 << 30, 6 << 30, "6.1", "3.11"),
        tuple(Speed(name, "digest", rate * MEGA, rate * MEGA) for name, rate in FAST.items()),
        DiskProfile(
            "/home", "sda", "ext4", False, 1 << 30, True,
            (RandomReads(1, 10_000, 100, 90, 150, 200),),
            (Streaming("read", 1 << 20, disk_rate), Streaming("write", 1 << 20, disk_rate)),
        ),
        Tree(
            "/home", files, 1000, int(size_bytes), 1 << 30,
            (Walk("cold", files + 1000, walk_seconds, 5000, 1 << 20),
             Walk("warm", files + 1000, warm_seconds, 0, 0)),
            3.0, 15.0, 4096, read_rate, True, 2.0, codec_rate,
        ),
        network,
    )  # fmt: skip


def of(made, work):
    return next(one for one in predictions(made) if one.work == work)


@pytest.mark.parametrize(
    ("changes", "work", "bound", "word"),
    [
        ({"send_rate": 5 * MEGA}, "full", "network", "sending"),
        ({"codec_rate": 20 * MEGA}, "full", "processor", "compression"),
        ({"read_rate": 10 * MEGA, "disk_rate": 15 * MEGA}, "full", "disk", "reading"),
        ({"walk_seconds": 600.0, "size_bytes": 1e9}, "full", "disk", "the walk"),
        ({"files": 10_000_000, "warm_seconds": 30, "size_bytes": 1e8}, "full", "processor",
         "opening files"),
        ({"walk_seconds": 60.0}, "incremental", "disk", "the walk"),
        ({"walk_seconds": 0.5, "cores": 2}, "incremental", "processor", "listing"),
        ({"send_rate": 5 * MEGA}, "image", "network", "sending"),
        ({"disk_rate": 40 * MEGA}, "image", "disk", "reading"),
        ({"codec_rate": 50 * MEGA}, "image", "processor", "compression"),
    ],
)  # fmt: skip
def test_the_bound_of_a_profile_is_named(changes, work, bound, word):
    prediction = of(profile(**changes), work)
    assert prediction.bound == bound
    assert next(sentences(prediction)).startswith(f"The {bound} is the bottleneck: {word} takes ")


def test_a_faster_bound_shortens_the_prediction_until_the_next_one():
    slow = of(profile(send_rate=5 * MEGA), "full")
    faster = of(profile(send_rate=10 * MEGA), "full")
    assert slow.seconds_of("network") == pytest.approx(2 * faster.seconds_of("network"))
    fastest = of(profile(send_rate=1e12), "full")
    assert fastest.bound != "network"
    assert fastest.seconds == pytest.approx(of(profile(), "full").seconds)
    # 10 GB, of which half is left after compression, through 5 MB/s.
    assert slow.seconds == pytest.approx(1000 + START_SECONDS)
    assert slow.bytes_per_second == pytest.approx(10 * MEGA, rel=1e-3)
    assert slow.files_per_second == pytest.approx(100, rel=1e-3)


def test_more_cores_relieve_the_processor_only():
    two = of(profile(cores=2, codec_rate=20 * MEGA), "full")
    four = of(profile(cores=4, codec_rate=20 * MEGA), "full")
    assert two.seconds_of("processor") == pytest.approx(2 * four.seconds_of("processor"))


def test_what_one_process_does_in_turn_is_a_bound_on_many_cores():
    few, many, more = (of(profile(cores=cores), "incremental") for cores in (2, 64, 128))
    assert many.seconds_of("processor") < few.seconds_of("processor")
    assert more.seconds_of("processor") == pytest.approx(many.seconds_of("processor"))
    assert next(sentences(of(profile(cores=64, walk_seconds=0.1), "incremental"))) == (
        "The processor is the bottleneck: ordering by one process takes 100% of its time."
    )


def test_a_file_system_that_makes_wait_does_not_take_the_processor():
    found = profile(walk_seconds=30.0, warm_seconds=30.0, size_bytes=1e8)
    waited = [msgspec.structs.replace(walk, processor_seconds=0.5) for walk in found.tree.walks]
    tree = msgspec.structs.replace(found.tree, walks=tuple(waited))
    late = of(msgspec.structs.replace(found, tree=tree), "incremental")
    assert late.bound == "disk"
    assert any("scan threads" in sentence for sentence in sentences(late))


def test_what_is_gained_without_the_bound_counts_the_start():
    prediction = of(profile(walk_seconds=0.01, cores=2), "incremental")
    gain = prediction.seconds / (START_SECONDS + 0.01)
    said = f"Without that bound it would be {gain:.1f} times as fast, then the disk."
    assert said in list(sentences(prediction))


def test_the_start_is_part_of_every_prediction():
    tiny = of(profile(files=10, size_bytes=1e4, walk_seconds=1e-3, warm_seconds=1e-3), "full")
    assert START_SECONDS < tiny.seconds < 2 * START_SECONDS


def test_directories_cost_more_than_files():
    flat = of(profile(), "incremental")
    found = profile()
    tree = msgspec.structs.replace(found.tree, directories=found.tree.files // 4)
    deep = of(msgspec.structs.replace(found, tree=tree), "incremental")
    assert deep.seconds_of("processor") > 1.8 * flat.seconds_of("processor")


def test_stages_that_are_close_are_both_named():
    made = profile(send_rate=45 * MEGA, codec_rate=25 * MEGA)
    text = " ".join(sentences(of(made, "full")))
    assert "hardly faster" in text


def test_what_was_not_measured_is_not_predicted():
    bare = msgspec.structs.replace(profile(), disk=None, tree=None)
    assert predictions(bare) == []
    no_processor = msgspec.structs.replace(profile(), speeds=())
    assert set(of(no_processor, "full").stages) == {"disk"}


def test_a_profile_survives_its_file():
    made = profile(send_rate=MEGA)
    assert parse_profile(profile_json(made)) == made
    for text, said in ((b"{}", "not a profile"), (b"x", "not a profile")):
        with pytest.raises(UsageError, match=said):
            parse_profile(text)
    later = msgspec.structs.replace(made, version=2)
    with pytest.raises(UsageError, match="measure again"):
        parse_profile(profile_json(later))


def test_a_backup_of_everything_is_predicted_as_a_full_and_of_nothing_as_an_incremental():
    found = profile(walk_seconds=2.0, warm_seconds=1.0, send_rate=50 * MEGA)
    full, incremental, _ = predictions(found)
    entries = found.tree.entries
    everything = backup_prediction(found, entries, found.tree.files, found.tree.size_bytes)
    assert everything.seconds == pytest.approx(full.seconds)
    assert everything.bound == full.bound
    nothing = backup_prediction(found, entries, 0, 0)
    assert nothing.seconds == pytest.approx(incremental.seconds)
    half = backup_prediction(found, entries // 2, found.tree.files // 2, found.tree.size_bytes // 2)
    assert half.seconds == pytest.approx(full.seconds / 2, rel=0.01)


def test_what_a_backup_took_stands_beside_its_prediction():
    found = profile(walk_seconds=2.0)
    entries, read = found.tree.entries, found.tree.files
    size_bytes = found.tree.size_bytes
    expected = backup_prediction(found, entries, read, size_bytes).seconds
    usual = compare(found, Measured(entries, read, size_bytes, expected))
    assert usual.ratio == pytest.approx(1)
    assert [one.split(":")[0] for one in comparison_sentences(usual)] == ["predicted", "measured"]
    slow = compare(found, Measured(entries, read, size_bytes, 3 * expected))
    assert "It took 3.0 times as long as predicted" in list(comparison_sentences(slow))[-1]
    fast = compare(found, Measured(entries, read, size_bytes, expected / 4))
    assert "It took 0.25 of the time predicted" in list(comparison_sentences(fast))[-1]
    assert compare(msgspec.structs.replace(found, tree=None), usual.measured) is None
