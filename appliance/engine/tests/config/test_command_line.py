"""`strongroom config` as a user runs it."""

from __future__ import annotations

import json

DIRECTOR = "Director { Name = d; Password = p }\n"


def test_parse_prints_the_documented_shape(config, tmp_path):
    file = tmp_path / "pool.conf"
    file.write_text("Pool {\n  Name = p\n  Recycle = true\n}\n")
    done = config("parse", "--component", "director", "--json", str(file))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert sorted(answer) == ["errors", "resources", "warnings"]
    assert answer["resources"] == [
        {
            "type": "Pool",
            "name": "p",
            "directives": [
                ["Name", "p", {"file": str(file), "line": 2}],
                ["Recycle", "true", {"file": str(file), "line": 3}],
            ],
        }
    ]
    assert answer["errors"] == []
    assert [(one["file"], one["line"], one["column"]) for one in answer["warnings"]] == [
        (str(file), 3, 13)
    ]


def test_parse_ends_with_1_when_there_is_an_error(config, tmp_path):
    file = tmp_path / "pool.conf"
    file.write_bytes(b"Pool {\n  Name = \xff\n}\n")
    done = config("parse", "--component", "director", "--json", str(file))
    assert done.returncode == 1
    assert len(json.loads(done.stdout)["errors"]) == 1


def test_check_shows_every_finding_with_its_line(config, tmp_path):
    file = tmp_path / "bareos-fd.conf"
    file.write_text("Client {\n  Name = c\n  Workng Directory = /x\n}\n" + DIRECTOR)
    done = config("check", str(file))
    assert done.returncode == 0
    assert done.stdout.startswith(
        f"{file}:3:3: warning: Client has no directive Workng Directory; did you mean "
        "Working Directory?\n      Workng Directory = /x\n      ^~~~~~~~~~~~~~~~\n"
    )
    assert "0 errors, 1 warning, 0 notes" in done.stdout
    assert config("check", "--werror", str(file)).returncode == 40
    assert config("check", "--strict", str(file)).returncode == 40


def test_what_a_tree_lacks_is_told_of_its_folder(config, tmp_path):
    folder = tmp_path / "director.d" / "all"
    folder.mkdir(parents=True)
    # Packages bring empty folders, which are no tree yet.
    assert config("check", str(tmp_path)).returncode == 2
    (folder / "empty.conf").write_text("")
    done = config("check", str(tmp_path))
    assert done.returncode == 40
    said = [line for line in (done.stdout + done.stderr).splitlines() if "error:" in line]
    assert said[0].startswith(f"{folder.parent}: error: the director needs a Director resource")
    # There is no line to show.
    assert "^" not in done.stdout + done.stderr


def test_check_json_is_a_finding_a_line_and_a_summary(config, tmp_path):
    file = tmp_path / "bareos-fd.conf"
    file.write_text("Client { Name = c; Foo = 1 }\n" + DIRECTOR)
    done = config("check", "--json", str(file))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["finding", "summary"]
    assert lines[-1]["warnings"] == 1


def test_a_fragment_may_name_what_others_define(config, tmp_path):
    file = tmp_path / "rendered.tmp"
    file.write_text("Job { Name = j; JobDefs = elsewhere }\n")
    words = ("check", "--component", "director", str(file))
    assert config(*words).returncode == 40
    assert config(*words, "--fragment").returncode == 0
    file.write_text("Job { Name = j; JobDfs = elsewhere }\n")
    assert config(*words, "--fragment", "--werror").returncode == 40


def test_quiet_says_only_what_is_wrong(config, tmp_path):
    file = tmp_path / "bareos-fd.conf"
    file.write_text("Client { Name = c }\n" + DIRECTOR)
    assert config("check", "--quiet", str(file)).stdout == ""


def test_a_wrong_path_is_an_error_of_use(config):
    done = config("check", "/none")
    assert done.returncode == 2
    assert "no such file" in done.stderr


def test_show_says_where_values_come_from(config, tmp_path):
    file = tmp_path / "bareos-fd.conf"
    file.write_text("Client { Name = c; Heartbeat Interval = 2 min }\n" + DIRECTOR)
    done = config("show", "--config", str(file), "Client")
    assert f"    Heartbeat Interval = 120 (2 minutes)    # {file}:1\n" in done.stdout
    assert "    Port = 9102    # default\n" in done.stdout
    assert "Password = ***" in config("show", "--config", str(file), "Director/d").stdout
    assert "Password = p " in config("show", "--secrets", "--config", str(file), "d").stdout
    assert "Port" not in config("show", "--set", "--config", str(file), "agent:c").stdout
    values = json.loads(config("show", "--json", "--config", str(file), "c").stdout)["values"]
    assert {
        "name": "Heartbeat Interval",
        "value": 120,
        "origin": "set",
        "file": str(file),
        "line": 1,
        "inherited_from": "",
    } in values
    assert config("show", "--config", str(file), "Nix").returncode == 2


def test_show_prints_a_run_as_it_is_written(config, tmp_path):
    file = tmp_path / "director.conf"
    file.write_text(
        "Schedule {\n  Name = s\n  Run = full 1st,3rd SUN at 23:05\n  Run = daily at 1:00\n}\n"
    )
    done = config("show", "--component", "director", "--config", str(file), "Schedule/s")
    assert done.returncode == 40
    file.write_text(
        f"{DIRECTOR}{file.read_text()}"
        "Catalog { Name = k; Db Name = b; Db User = b }\nMessages { Name = m }\n"
        "Job { Name = j; Type = Admin; Pool = p; Messages = m; Client = c; FileSet = f; Storage = t"
        "\n}\nPool { Name = p }\nClient { Name = c; Address = a; Password = x }\n"
        "FileSet { Name = f\n Include { File = /etc\n }\n}\n"
        "Storage { Name = t; Address = a; Password = x; Device = d; Media Type = File }\n"
    )
    done = config("show", "--config", str(file), "Schedule/s")
    assert f"    Run = Level=Full 1st 3rd sun at 23:05; daily at 1:00    # {file}:" in done.stdout


def test_a_folder_that_a_package_brought_empty_stands_in_nobodys_way(config, tmp_path):
    (tmp_path / "director.d" / "client").mkdir(parents=True)
    done = config("check", str(tmp_path))
    assert done.returncode == 2
    assert "no configuration is here" in done.stderr
    (tmp_path / "bareos-dir.d" / "pool").mkdir(parents=True)
    (tmp_path / "bareos-dir.d" / "pool" / "p.conf").write_text("Pool { Nam = p }\n")
    done = config("check", "--component", "director", str(tmp_path))
    assert f"{tmp_path}/bareos-dir.d/pool/p.conf:1" in done.stdout
    # As soon as ours has a file, it is ours that counts.
    (tmp_path / "director.d" / "client" / "c.conf").write_text("Client { Nam = c }\n")
    done = config("check", "--component", "director", str(tmp_path))
    assert f"{tmp_path}/director.d/client/c.conf:1" in done.stdout
