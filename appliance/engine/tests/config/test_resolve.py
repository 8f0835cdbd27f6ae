"""References, inheritance, completeness; and the frozen result."""

from __future__ import annotations

import pytest

from strongroom.base.errors import ConfigurationError
from strongroom.config.resolve import load
from strongroom.config.settings.job import RunScript, run_scripts
from strongroom.config.trees.loader import LoadOptions

DIRECTOR = """
Director { Name = dir; Password = "p" }
Catalog { Name = one; DB Name = a; DB User = b }
Catalog { Name = two; DB Name = a; DB User = b }
Messages { Name = m
 Mail = a@x = all, !skipped
 Mail Command = "/bin/later"
 Mail On Error = b@x,c@x = error
 Console = all
 Timestamp Format = "%d"
 Append = "/log" = fatal
}
Client { Name = c; Address = host; Password = "p" }
Storage { Name = s; Address = host; Password = "p"; Device = d; Media Type = File }
Storage { Name = s2; Address = host; Password = "p"; Device = d; Media Type = File }
Pool { Name = p; Volume Retention = 1 month 2 days
 Maximum Volume Bytes = 1.5g
 Keep Daily = 7; Keep Within = 1 week
 Keep Tag = yearly, legal
}
Schedule { Name = weekly
 Run = Full Pool=p Storage=s2 Priority=5 MaxRunSchedTime="2 h" 1st sun at 2:05
 Run = Incremental mon-fri at 9:10pm
}
FileSet { Name = f
 Include {
  Options { Compression = ZSTD3
   Wild = "*.o"
   Wild = "*.tmp"
   Exclude = yes
  }
  Options { One FS = no
  }
  File = /home
  File = "/srv"
 }
 Exclude { File = /home/x
 }
}
Job { Name = nightly; JobDefs = day; Max Run Time = 2 hours
 Run After Job = "own"
 Storage = s2, s
}
# Inheritance does not depend on the order of definitions.
JobDefs { Name = day; JobDefs = base; Level = Incremental; Description = theirs
 RunScript { Command = "middle"
  Runs When = After
  Runs On Client = no
  Runs On Failure = yes
 }
}
JobDefs { Name = base; Type = Backup; Level = Full; Messages = m; Pool = p; Client = c
 FileSet = f; Storage = s; Schedule = weekly
 Client Run Before Job = "deep"
}
"""


@pytest.fixture
def tree(tmp_path):
    file = tmp_path / "bareos-dir.conf"

    def write(text: str) -> str:
        file.write_text(text)
        return str(file)

    return write


def errors(path: str, **options) -> list[str]:
    from strongroom.config.resolve import resolve
    from strongroom.config.trees.loader import load_trees

    loaded = load_trees(path, LoadOptions(**options))
    resolve(loaded)
    return [one.head().split(": ", 1)[1] for one in loaded.diagnostics.sorted("error")]


def test_a_program_reads_it_as_objects(tree):
    director = load(tree(DIRECTOR)).director
    job = director.of_type("Job")["nightly"]
    include = job.reference("fileset").blocks("include")[0]
    first, second = include.blocks("options")
    assert first.text("compression") == "zstd3"
    assert first.texts("wild") == ("*.o", "*.tmp")
    assert first.switch("exclude")
    assert second.value("one_fs") is False
    assert second.value("acl_support") is True
    assert second.value("hard_links") is False
    assert include.texts("file") == ("/home", "/srv")
    client = job.reference("client")
    assert (client.text("address"), client.number("port")) == ("host", 9102)
    assert client.name_of("catalog") == "one"
    pool = job.reference("pool")
    assert pool.number("volume_retention_seconds") == 32 * 86400
    assert pool.number("maximum_volume_bytes") == 1024**3 * 3 // 2
    assert (pool.number("keep_daily"), pool.number("keep_within_seconds")) == (7, 604800)
    assert pool.texts("keep_tag") == ("yearly", "legal")
    assert job.number("max_run_time_seconds") == 7200
    assert job.optional_number("max_wait_time_seconds") is None
    assert job.number("priority") == 10
    assert job.text("where") == ""
    assert job.names_of("storage") == ("s2", "s")
    assert director.daemon.name == "dir"
    assert director.daemon.number("fd_connect_timeout_seconds") == 180


def test_inheritance_is_transitive_and_says_where_from(tree):
    job = load(tree(DIRECTOR)).director.of_type("Job")["nightly"]
    assert (job.job_type, job.text("level")) == ("Backup", "Incremental")
    assert job.name_of("messages") == "m"
    assert job.value("description") is None
    assert (job.origin("level").kind, job.origin("level").inherited_from) == ("inherited", "day")
    assert job.origin("client").inherited_from == "base"
    assert (job.origin("max_run_time_seconds").kind, job.origin("priority").kind) == (
        "set",
        "default",
    )
    level_line = DIRECTOR[: DIRECTOR.index("Level = Incremental")].count("\n") + 1
    assert job.origin("level").line == level_line


def test_scripts_add_up(tree):
    assert run_scripts(load(tree(DIRECTOR)).director.of_type("Job")["nightly"]) == (
        RunScript(("own",), (), "After", False, True, False, True),
        RunScript(("middle",), (), "After", False, True, True, True),
        RunScript(("deep",), (), "Before", True, True, False, True),
    )


def test_runs_hold_names_and_numbers(tree):
    first, second = load(tree(DIRECTOR)).director.of_type("Schedule")["weekly"].value("run")
    assert (first.level, first.pool, first.storage) == ("Full", "p", "s2")
    assert (first.priority, first.max_run_sched_time_seconds) == (5, 7200)
    assert (first.hours, first.minute, first.weekdays, first.weeks_of_month) == (
        (2,),
        5,
        (0,),
        (1,),
    )
    assert (second.hours, second.minute, second.weekdays) == ((21,), 10, (1, 2, 3, 4, 5))


def test_a_command_is_for_the_destinations_after_it(tree):
    messages = load(tree(DIRECTOR)).director.of_type("Messages")["m"]
    assert [(one.kind, one.command) for one in messages.destinations] == [
        ("Mail", None),
        ("MailOnError", "/bin/later"),
        ("Console", None),
        ("Append", None),
    ]
    assert messages.value("mail_on_error")[0].addresses == ("b@x", "c@x")
    assert messages.value("append")[0].timestamp_format == "%d"
    assert "skipped" not in messages.value("mail")[0].accepted_types
    assert "error" in messages.value("mail")[0].accepted_types


def test_it_is_frozen_and_knows_its_attributes(tree):
    director = load(tree(DIRECTOR)).director
    job = director.of_type("Job")["nightly"]
    with pytest.raises(AttributeError):
        job.level = "Full"
    with pytest.raises(AttributeError, match=r"Job .*levle"):
        job.text("levle")
    with pytest.raises(TypeError, match="priority of Job"):
        job.text("priority")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("Schedule = weekly", "Schedule = weakly",
         "Schedule names the Schedule weakly, which is not defined; did you mean weekly?"),
        ("Storage = s2, s", "Storage = s2, s3", "names the Storage s3, which is not defined"),
        ("Pool=p ", "Pool=q ", "Run names the Pool q, which is not defined"),
        ("Type = Backup; ", "", "Job nightly needs Type, its own or from JobDefs"),
        ("FileSet = f;", ";", "Job nightly needs FileSet, its own or from JobDefs"),
        ("Address = host; ", "", "Client c needs Address"),
        ("JobDefs = base", "JobDefs = day", "JobDefs inherit in a circle: day -> day"),
        ('Director { Name = dir; Password = "p" }', "", "the director needs a Director"),
        ("Catalog { Name = one", "Director { Name = two; Password = p }\nCatalog { Name = one",
         "only one Director may be there; Director two is another"),
    ],
)  # fmt: skip
def test_what_is_wrong_as_a_whole(old, new, error, tree):
    assert old in DIRECTOR
    found = errors(tree(DIRECTOR.replace(old, new)))
    assert any(error in one for one in found), found


def test_nothing_is_wrong_with_the_example(tree):
    assert errors(tree(DIRECTOR)) == []


def test_a_copy_job_needs_neither_client_nor_fileset(tree):
    text = DIRECTOR.replace("Pool { Name = p;", "Pool { Name = p; Storage = s; Next Pool = q;")
    text += "Pool { Name = q; Storage = s2 }\n"
    text += "Job { Name = copy; Type = Copy; Messages = m; Pool = p }\n"
    assert errors(tree(text)) == []


def test_the_pool_may_give_the_storage(tree):
    text = DIRECTOR.replace("Storage = s; Schedule", "Schedule").replace("Storage = s2, s", "")
    assert any("needs Storage" in one for one in errors(tree(text)))
    assert errors(tree(text.replace("Pool { Name = p;", "Pool { Name = p; Storage = s;"))) == []


def test_long_circles_end_and_are_told(tree):
    circle = "".join(f"JobDefs {{ Name = d{n}; JobDefs = d{(n + 1) % 5} }}\n" for n in range(5))
    job = "Job { Name = j; JobDefs = d0 }\n"
    found = errors(tree(DIRECTOR + circle + job))
    assert len([one for one in found if "circle" in one]) == 5
    # What j lacks is the circle's fault, and is not told as another error.
    assert not any("Job j" in one for one in found)


def test_inheritance_is_bounded_and_takes_linear_time(tree):
    def chain(length):
        defs = [f"JobDefs {{ Name = d{n}; JobDefs = d{n + 1} }}\n" for n in range(length - 1)]
        last = f"JobDefs {{ Name = d{length - 1}; Max Run Time = 5 }}\n"
        return DIRECTOR.replace("JobDefs = base", "JobDefs = d0") + "".join([*defs, last])

    def refused(length):
        return [one for one in errors(tree(chain(length))) if "more than 32" in one]

    # nightly inherits through day.
    assert refused(31) == []
    assert len(refused(32)) == 1
    assert len(refused(5000)) == 5000 - 31


def test_what_follows_from_an_error_is_not_another(tree):
    text = DIRECTOR.replace("Type = Backup;", "Type = Bakup;")
    assert [one.partition("error: ")[2][:16] for one in errors(tree(text))] == ["Type takes one o"]
    text = DIRECTOR.replace("JobDefs = base", "JobDefs = bass")
    assert len(errors(tree(text))) == 1
    assert "mean base" in errors(tree(text))[0]
    text = DIRECTOR.replace('Name = dir; Password = "p"', "Name = dir; Password = 1234")
    assert len(errors(tree(text))) == 1
    assert "quoted" in errors(tree(text))[0]


def test_loading_something_wrong_raises_with_all_errors(tree):
    with pytest.raises(ConfigurationError, match="2 errors") as caught:
        load(
            tree(DIRECTOR.replace("Client = c", "Client = x").replace("FileSet = f", "FileSet = x"))
        )
    assert str(caught.value).count("not defined") == 2


def test_one_file_of_a_tree_is_not_judged_as_a_whole(tmp_path):
    folder = tmp_path / "bareos-dir.d" / "job"
    folder.mkdir(parents=True)
    (folder / "j.conf").write_text("Job { Name = j; JobDefs = elsewhere; Client = c }\n")
    assert errors(str(tmp_path))
    from strongroom.config.resolve import resolve
    from strongroom.config.trees.loader import is_whole, load_trees

    path = str(folder / "j.conf")
    loaded = load_trees(path, LoadOptions())
    resolve(loaded, whole=is_whole(path, None))
    assert loaded.diagnostics.entries == []


def test_who_loads_a_configuration_hears_its_warnings(tree, caplog):
    assert load(tree(DIRECTOR + "\nBogus { }\n")).director is not None
    assert "resource Bogus" in caplog.text
