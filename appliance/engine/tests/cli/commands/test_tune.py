"""`strongroom tune`, as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from kit.command import Command
from kit.project import ROLES
from strongroom.engine.knobs.table import ENTRIES_A_PAGE

ROLE = ROLES / "agent"
FEW = ("--minutes", "0.01", "--knobs", "lru_size", "--host", "web1")


@pytest.fixture
def command(tmp_path):
    return Command(tmp_path)


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "data" / "tree"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / str(number)).write_bytes(b"a line of text\n" * 100)
    return folder


@pytest.fixture
def place(tmp_path):
    """Where the inventory and the state go; the tree's folder gets nothing."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def tune(command, tree, place, *words, **options):
    return command.run(
        "tune", "--dir", str(tree), "--inventory", str(place), "--state", str(place / "state"),
        *words, **options,
    )  # fmt: skip


def test_it_tells_what_it_measured_and_writes_a_file_of_the_inventory(command, tree, place):
    shown = tune(command, tree, place, *FEW).stdout
    (head,) = [line for line in shown.splitlines() if line.startswith("CONDITIONS")]
    names = [name.strip() for name in head.split("  ") if name]
    assert names == [
        "CONDITIONS", "TIME", "MEMORY", "NUMBER OF RUNS", "STORED", "AGAINST DEFAULTS",
    ]  # fmt: skip
    written = place / "host_vars" / "web1" / "strongroom_tuning.yml"
    assert f"written: {written}" in shown
    text = written.read_text()
    assert "# " in text
    assert "defaults: " in text
    assert set(yaml.safe_load(text)) <= {"strongroom_lru_size"}
    # Nothing of ours is left beside the tree.
    assert os.listdir(tree.parent) == ["tree"]


def test_a_dry_run_shows_the_file_and_writes_none(command, tree, place):
    shown = tune(command, tree, place, *FEW, "-n").stdout
    assert "# Written by `strongroom tune`" in shown
    assert not (place / "host_vars").exists()


def test_a_search_goes_on_with_the_runs_it_has(command, tree, place):
    tune(command, tree, place, *FEW)
    state = place / "state"
    before = state.read_text()
    found = json.loads(tune(command, tree, place, *FEW, "--resume", "--json").stdout)
    assert state.read_text().startswith(before)
    seconds = [json.loads(line)["run"]["seconds"] for line in before.splitlines()[1:]]
    told = [run for one in found["conditions"] for run in one["runs"]]
    assert set(seconds) <= set(told)
    assert found["written"] == str(place / "host_vars" / "web1" / "strongroom_tuning.yml")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_search_leaves_nothing_but_its_state(command, tree, place, number):
    words = command.words("tune", "--dir", str(tree), "--inventory", str(place), "--minutes", "9",
                          "--state", str(place / "state"), "--knobs", "lru_size")  # fmt: skip
    process = subprocess.Popen(words, env=command.environment, stderr=subprocess.PIPE)
    runs = place / "state"
    while not (runs.exists() and len(runs.read_bytes().splitlines()) > 1):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    assert len(os.listdir(tree.parent)) == 2
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 128 + number
    assert os.listdir(tree.parent) == ["tree"]
    assert not (place / "host_vars").exists()
    found = tune(command, tree, place, "--minutes", "0.01", "--knobs", "lru_size", "--resume",
                 "--json")  # fmt: skip
    assert json.loads(found.stdout)["conditions"]


def test_over_a_link_the_way_of_the_connection_is_a_knob(command, tree, place):
    found = json.loads(
        tune(command, tree, place, "--minutes", "0.01", "--knobs", "ktls", "--link", "1,50",
             "--json").stdout
    )  # fmt: skip
    assert found["conditions"][0]["knobs"] == {}


@pytest.mark.slow
def test_over_a_thin_link_less_is_backed_up_each_time(command, tmp_path, place):
    """100 runs of what nothing shrinks fit into the time, at the rate of the link."""
    folder = tmp_path / "media"
    folder.mkdir()
    for number in range(60):
        (folder / str(number)).write_bytes(os.urandom(200_000))
    words = ["--knobs", "lru_size", "--json", "--minutes"]
    found = json.loads(tune(command, folder, place, *words, "0.3").stdout)
    assert (found["files"], found["is_sample"]) == (60, False)
    found = json.loads(tune(command, folder, place, *words, "1", "--link", "1,3").stdout)
    assert found["is_sample"]
    assert 0 < found["size_bytes"] <= 60 * 3e6 / 100
    assert len(found["conditions"]) > 1


def test_over_a_link_compression_is_searched_first():
    from strongroom.cli.measure.tuning.axes import axes, searched_names

    def first(*, over_link):
        found = axes(searched_names(over_link=over_link), [], cores=2, available_bytes=1 << 30,
                     is_far=False, over_link=over_link)  # fmt: skip
        return found[0].name

    assert first(over_link=True) == "compression"
    assert first(over_link=False) == "shards"


def test_codecs_have_further_steps_that_are_tried_as_long_as_they_help():
    from strongroom.cli.measure.tuning.axes import axes

    (codec,) = axes(["compression"], [], cores=2, available_bytes=1 << 30, is_far=False,
                    over_link=True)  # fmt: skip
    assert codec.upward == ("zstd3", "zstd6", "zstd9")
    assert set(codec.others) == {"none", "lz4", "zstd1"}


def test_every_value_that_can_be_written_is_one_that_the_role_takes():
    """Names, types and choices are those of the role's argument_specs."""
    from strongroom.cli.measure.tuning.axes import axes, changeable_names, searched_names
    from strongroom.cli.measure.tuning.search import DEFAULTS
    from strongroom.cli.tune_report import inventory_text

    specs = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())
    options = specs["argument_specs"]["main"]["options"]
    types = {"int": int, "str": str, "bool": bool}
    seen = set()
    for cores in (1, 2, 64):
        found = axes(
            searched_names(over_link=True), changeable_names(over_link=True), cores=cores,
            available_bytes=64 << 30, is_far=cores == 2, over_link=True,
        )  # fmt: skip
        for axis in found:
            for value in (*axis.upward, *axis.downward, *axis.others):
                condition = DEFAULTS.with_value(axis.name, value, axis.default)
                for name, said in yaml.safe_load(inventory_text(condition, ())).items():
                    spec = options[name]
                    assert type(said) is types[spec["type"]], name
                    assert said in spec.get("choices", [said]), name
                    seen.add(name)
    assert seen == {
        "strongroom_shards", "strongroom_scan_threads", "strongroom_compression",
        "strongroom_workers", "strongroom_upload_queue_size", "strongroom_lru_size",
        "strongroom_ktls", "strongroom_acls", "strongroom_xattrs", "strongroom_signature",
        "strongroom_tls_enable",
    }  # fmt: skip


def test_pages_are_written_as_the_entries_that_the_variable_counts():
    from strongroom.cli.measure.tuning.search import KnobChanges
    from strongroom.cli.tune_report import inventory_text

    text = inventory_text(KnobChanges((("lru_size", 32),)), ["why"])
    assert yaml.safe_load(text) == {"strongroom_lru_size": 32 * ENTRIES_A_PAGE}
    assert "# why" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--minutes", "0"], "argument --minutes: '0'"),
        (["--larger", "-1"], "argument --larger: '-1'"),
        (["--work", "/none"], "argument --work: /none is not a folder"),
        (["--host", "../x"], "--host ../x is not a name of an inventory"),
        (["--knobs", "colour"], "--knobs colour: write some of"),
        (["--knobs", "ktls"], "--knobs ktls: write some of"),
        (["--change", "workers"], "--change workers: write one of acls, xattrs, signature"),
        (["--link", "fast"], "argument --link: 'fast': write the round trip"),
        (["--resume"], "there is nothing to resume"),
    ],
)
def test_what_cannot_be_searched_is_one_clear_error(command, tree, place, words, said):
    outcome = tune(command, tree, place, *words, exit_code=2)
    assert said in outcome.stderr
    assert outcome.stderr.count("strongroom: error") == 1
    assert not (place / "host_vars").exists()


@pytest.mark.parametrize("words", [[], ["--link", "1,50"]], ids=["here", "over a link"])
def test_a_backup_that_takes_longer_than_the_search_is_stopped(command, tree, place, words):
    """0.06 s are less than the start of a program; else the least is a minute."""
    script = (
        "import sys; from strongroom.cli.main import main; "
        "from strongroom.cli.measure.tuning import journal; "
        "journal._LEAST_SECONDS = 0.01; sys.exit(main(sys.argv[1:]))"
    )
    called = command.words(
        "tune", "--dir", str(tree), "--inventory", str(place), "--state", str(place / "state"),
        "--minutes", "0.001", *words,
    )  # fmt: skip
    outcome = subprocess.run(
        [sys.executable, "-c", script, *called[called.index("tune") :]],
        env=command.environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 2
    assert "--minutes 0.001 is not enough: one backup of what was chosen" in outcome.stderr
    assert not (place / "host_vars").exists()
    assert os.listdir(tree.parent) == ["tree"]


def test_an_empty_folder_is_no_sample(command, tmp_path, place):
    (tmp_path / "empty").mkdir()
    outcome = tune(command, tmp_path / "empty", place, exit_code=2)
    assert "holds no file" in outcome.stderr


def test_a_state_of_other_options_or_of_another_program_is_not_resumed(command, tree, place):
    tune(command, tree, place, *FEW)
    outcome = tune(command, tree, place, *FEW, "--backup", "first", "--resume", exit_code=2)
    assert "is of a search with another --backup" in outcome.stderr
    (place / "state").write_text("nonsense\n")
    outcome = tune(command, tree, place, *FEW, "--resume", exit_code=2)
    assert "is not what an earlier `strongroom tune` left" in outcome.stderr
