"""Includes: files, patterns, recognised commands, and the bounds on all of them."""

from __future__ import annotations

import os

import pytest

from strongroom.base.errors import UsageError
from strongroom.config.language.bounded_files import target_of
from strongroom.config.language.commands import patterns_of_command
from strongroom.config.language.sources import LoadLimits
from strongroom.config.trees.loader import LoadOptions, load_trees
from strongroom.engine.sources import shell
from strongroom.engine.sources.shell import run_command


def load(path, **options):
    return load_trees(str(path), LoadOptions(**options), "director")


def names(loaded):
    return [block.name for tree in loaded.trees.values() for block in tree.blocks]


def codes(loaded):
    return [one.code for one in loaded.diagnostics.sorted("error")]


def test_files_patterns_and_blocks(tmp_path):
    (tmp_path / "more").mkdir()
    for letter in "abc":
        (tmp_path / "more" / f"{letter}.conf").write_text(f"Pool {{ Name = {letter} }}")
    (tmp_path / "inside").write_text("Recycle = no\nMaximum Volumes = 3")
    (tmp_path / "with blank").write_text("Pool { Name = blank }")
    (tmp_path / "word").write_text('"secret" # of the\n')
    main = tmp_path / "main.conf"
    main.write_text(
        f'@more/*.conf\n@{tmp_path}/none*.conf\n@"with blank"\n'
        "Pool { Name = d\n @inside\n Label Format = @word\n}\n"
    )
    loaded = load(main)
    assert loaded.diagnostics.entries == []
    # A pattern's files are read from the last name to the first, as the original does.
    assert names(loaded) == ["c", "b", "a", "blank", "d"]
    last = loaded.trees["director"].blocks[-1]
    assert [(one.spec.name, one.raw) for one in last.directives] == [
        ("Name", "d"),
        ("Recycle", "no"),
        ("MaximumVolumes", "3"),
        ("LabelFormat", "secret"),
    ]
    assert last.directives[1].source.path.endswith("inside")


def test_a_missing_file_is_an_error_and_a_folder_is_empty(tmp_path):
    main = tmp_path / "main.conf"
    main.write_text(f"@missing\n@{tmp_path}\nPool {{ Name = p }}")
    loaded = load(main)
    assert codes(loaded) == ["unreadable"]
    assert names(loaded) == ["p"]


def test_loops_and_depth_are_bounded(tmp_path):
    (tmp_path / "a").write_text("@b\n")
    (tmp_path / "b").write_text("@a\nPool { Name = p }\n")
    loaded = load(tmp_path / "a")
    assert codes(loaded) == ["include-loop"]
    assert names(loaded) == ["p"]
    for number in range(10):
        (tmp_path / f"n{number}").write_text(f"@n{number + 1}\n")
    assert codes(load(tmp_path / "n0", limits=LoadLimits(include_depth=5))) == ["include-depth"]


def test_size_total_and_count_are_bounded(tmp_path):
    (tmp_path / "big").write_text("#" * 1000)
    (tmp_path / "main").write_text("@big\n@big\n@big\n@big\n")
    assert codes(load(tmp_path / "main", limits=LoadLimits(file_bytes=999)))[0] == "limit"
    assert codes(load(tmp_path / "main", limits=LoadLimits(total_bytes=2500))) == ["limit"] * 2
    assert codes(load(tmp_path / "main", limits=LoadLimits(files=3))) == ["limit"] * 2


def test_a_fifo_is_refused_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "main").write_text("@fifo\n")
    assert codes(load(tmp_path / "main")) == ["unreadable"]


def test_absolute_includes_are_found_below_another_root(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "pool.conf").write_text("Pool { Name = p }")
    (tmp_path / "main").write_text("@/etc/pool.conf\n")
    assert names(load(tmp_path / "main", root=str(tmp_path))) == ["p"]


@pytest.mark.parametrize(
    ("command", "patterns"),
    [
        ("cat /e/*.conf", ["/e/*.conf"]),
        ("sh -c 'cat /e/*.conf /f/a'", ["/e/*.conf", "/f/a"]),
        ("sh -c 'for f in /e/c.d/*.conf ; do echo @${f} ; done'", ["/e/c.d/*.conf"]),
        ("sh -c 'for f in /e/*.conf /g/*.conf; do echo \"@$f\"; done'", ["/e/*.conf", "/g/*.conf"]),
        ("find /e -maxdepth 1 -name '*.conf' -type f -exec cat {} +", ["/e/*.conf"]),
        ("find /e -maxdepth 2 -name '*.conf' -exec echo @{} \\;", ["/e/*.conf", "/e/*/*.conf"]),
        ("find /e -mindepth 2 -maxdepth 2 -name '*.conf' -printf '@%p\\n'", ["/e/*/*.conf"]),
        ("find /e -name '*.conf'", [f"/e/{'*/' * depth}*.conf" for depth in range(8)]),
        ("sh -c 'ls /e/*.conf | sed s/^/@/'", ["/e/*.conf"]),
        ("sh -c 'ls /e | xargs cat'", ["/e/*"]),
        ("sh -c 'ls /e/*.conf | xargs -I{} echo @{}'", ["/e/*.conf"]),
        ("sh -c 'ls /e/*.conf | while read -r f; do echo @$f; done'", ["/e/*.conf"]),
        ("sh -c 'for f in /e/*.conf; do cat \"$f\"; done'", ["/e/*.conf"]),
        ("sh -c 'for f in $(ls /e/*.conf); do echo @$f; done'", ["/e/*.conf"]),
        ("sh -c 'for f in `find /e -maxdepth 1`; do echo @$f; done'", ["/e/*"]),
        ("cat /e/x; rm -rf /", None),
        ("sh -c 'cat $(evil)'", None),
        ("cat /e/* | tee /etc/passwd", None),
        ("find /e -delete", None),
        ("find /e -name '*' -exec rm {} +", None),
        ("curl http://example.org/x", None),
        ("sh -c 'for f in $(evil); do echo @${f}; done'", None),
        ("sh -c 'for f in /e/*; do echo @${f}; rm $f; done'", None),
        ("sh -c 'ls /e/* | while read f; do rm $f; done'", None),
        ("sh -c 'ls /e/* | xargs rm'", None),
        ("sh -c 'for f in $(ls /e; evil); do echo @$f; done'", None),
        ("sh -c 'for f in /e/[ab]*.conf; do echo @$f; done'", None),
        ("find $HOME -name '*.conf' -exec cat {} +", None),
        ("find /e -type d -exec cat {} +", None),
        ("find /e -printf 'x'", None),
        ("cat ~/x", None),
        ("'", None),
    ],
)
def test_commands_that_only_list_are_patterns(command, patterns):
    assert patterns_of_command(command) == patterns


def test_an_include_is_taken_apart():
    assert target_of('@|"sh -c \'echo \\"x\\"\'"').command == "sh -c 'echo \"x\"'"
    assert target_of("@|cat /x").command == "cat /x"
    assert target_of('@"a b"').path == "a b"


def test_commands_are_recognised_refused_or_run(tmp_path):
    (tmp_path / "a.conf").write_text("Pool { Name = a }")
    listing = tmp_path / "listing"
    listing.write_text(f"@|\"sh -c 'for f in {tmp_path}/*.conf ; do echo @${{f}} ; done'\"\n")
    assert names(load(listing)) == ["a"]
    other = tmp_path / "other"
    other.write_text(f"@|\"sh -c 'touch {tmp_path}/ran; echo Pool {{ Name = made }}'\"\n")
    refused = load(other)
    assert codes(refused) == ["command"]
    assert not (tmp_path / "ran").exists()
    assert names(load(other, allow_commands=True)) == ["made"]
    assert (tmp_path / "ran").exists()


def test_a_command_that_fails_is_an_error(tmp_path):
    (tmp_path / "main").write_text("@|\"sh -c 'echo sorry >&2; exit 3'\"\n")
    loaded = load(tmp_path / "main", allow_commands=True)
    assert codes(loaded) == ["command"]
    assert "exit status 3 sorry" in loaded.diagnostics.entries[0].message


def test_a_command_is_stopped_when_it_says_too_much_or_takes_too_long(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="1000 bytes"):
        run_command("yes", 1000)
    monkeypatch.setattr(shell, "COMMAND_SECONDS", 0.3)
    for slow in ("sleep 60 & sleep 60", "exec >&- 2>&-; sleep 60", f"sleep 1; touch {tmp_path}/x"):
        with pytest.raises(OSError, match="took longer"):
            run_command(slow, 1000)
    assert run_command("yes | head -n 100000 >&2; echo done", 1000) == b"done\n"


def test_patterns_look_at_a_bounded_number_of_entries(tmp_path):
    for number in range(60):
        (tmp_path / f"{number}").mkdir()
    (tmp_path / "main").write_text("@*/*/none*.conf\nPool { Name = p }\n@nothing/*\n")
    assert codes(load(tmp_path / "main")) == []
    bounded = load(tmp_path / "main", limits=LoadLimits(pattern_entries=100))
    assert set(codes(bounded)) == {"limit"}
    assert names(bounded) == ["p"]


def test_letters_of_patterns_in_the_name_of_a_folder_are_letters(tmp_path):
    folder = tmp_path / "a*b[c]"
    (folder / "bareos-dir.d" / "pool").mkdir(parents=True)
    (tmp_path / "axb[c]").mkdir()
    (tmp_path / "axb[c]" / "other.conf").write_text("Pool { Name = other }")
    (folder / "here.conf").write_text("Pool { Name = here }")
    (folder / ".hidden.conf").write_text("Pool { Name = hidden }")
    (folder / "bareos-dir.d" / "pool" / "main.conf").write_text("@../../*.conf\n")
    assert names(load_trees(str(folder), LoadOptions())) == ["here"]


def test_trees_are_found_under_all_three_names(tmp_path):
    for stem in ("bareos-dir", "storage", "bacula-fd"):
        folder = tmp_path / f"{stem}.d" / "x"
        folder.mkdir(parents=True)
        (folder / "a.conf").write_text("Messages { Name = m }")
    (tmp_path / "bconsole.conf").write_text("Director { Name = d; Address = a }")
    loaded = load_trees(str(tmp_path), LoadOptions())
    assert sorted(loaded.trees) == ["agent", "console", "director", "storage"]
    assert loaded.diagnostics.entries == []
    one = load_trees(str(tmp_path / "bareos-dir.d" / "x" / "a.conf"), LoadOptions())
    assert list(one.trees) == ["director"]


def test_a_file_beside_the_folders_is_told_because_nobody_reads_it(tmp_path):
    folder = tmp_path / "director.d"
    (folder / "client").mkdir(parents=True)
    (folder / "web2.conf").write_text("Client { Name = web2 }\n")
    (folder / "included.conf").write_text("Client { Name = web3 }\n")
    (folder / "client" / "web1.conf").write_text(
        f'Client {{ Name = web1 }}\n@"{folder}/included.conf"\n'
    )
    for path in (tmp_path, folder):
        found = load_trees(str(path), LoadOptions())
        assert [str(one) for one in names(found)] == ["web1", "web3"]
        (diagnostic,) = found.diagnostics.entries
        assert diagnostic.head() == (
            f"{folder}/web2.conf: warning: web2.conf is not read: "
            "files belong one folder deeper, as in director.d/FOLDER/web2.conf"
        )


def test_paths_that_say_nothing(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError):
            load_trees(str(path), LoadOptions())
