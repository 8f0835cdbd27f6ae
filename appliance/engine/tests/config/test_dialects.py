"""What belongs to which dialect, and what strictness makes of it."""

from __future__ import annotations

import pytest

from strongroom.base.errors import UsageError
from strongroom.config.table.dialects import dialect_named
from strongroom.config.table.schema import schema

RETIRED = "Director { Name = d; Password = x; Pid Directory = /run }"
OWN = "Client { Name = c; Address = a; Password = x; Upload Queue Size = 64 }"
OWN_VALUE = (
    "FileSet { Name = f\n Include {\n Options { Compression = zstd3\n Signature = BLAKE3\n }\n }\n}"
)
BACULA = "Job { Name = j; Backups To Keep = 3 }"
DEPRECATED = "Client { Name = c; Address = a; Password = x; Auto Prune = yes }"


@pytest.mark.parametrize(
    ("text", "dialect", "strict", "severity"),
    [
        (RETIRED, None, False, "warning"),
        (RETIRED, None, True, "error"),
        (RETIRED, "bacula13", True, None),
        (OWN, None, False, None),
        (OWN, None, True, "error"),
        (OWN, "strongroom", True, None),
        (OWN, "bareos26", False, "warning"),
        (OWN_VALUE, None, False, None),
        (OWN_VALUE, None, True, "error"),
        (BACULA, None, False, "warning"),
        (BACULA, None, True, "error"),
        (BACULA, "bacula15", True, None),
        (DEPRECATED, None, True, "warning"),
        (DEPRECATED, "bacula9", False, None),
        ("Pool { Name = p; Foo = 1 }", None, False, "error"),
        ("Pool { Name = p; Foo = 1 }", "bareos26", False, "warning"),
        ("Pool { Name = p; Foo = 1 }", "bacula15", False, "warning"),
        ("Pool { Name = p; Foo = 1 }", None, True, "error"),
        ("Pool { Name = p\n Next Pool = a-b c\n }", None, False, "error"),
        ("Pool { Name = p\n Next Pool = a-b c\n }", "bareos26", False, "warning"),
        ("Pool { Name = p\n Next Pool = a-b c\n }", None, True, None),
        ("Pool { Name = p; Recycle = true }", None, True, "warning"),
        ("Pool { Name = p; Recycle = true }", "bareos25", True, None),
        ("Pool { Name = p; File Retention = 1 day }", "bareos24", True, None),
        ("Pool { Name = p; File Retention = 1 day }", "bareos25", True, "warning"),
        ("Console { Name = c; Password = x; Enable kTLS = yes }", "bareos24", True, None),
        ("Console { Name = c; Password = x; Enable kTLS = yes }", "bareos25", True, "error"),
        ("FileSet { Name = f; Enable kTLS = yes }", "bareos24", True, "error"),
        ("Pool { Name = p; Pid Directory = /run }", "bacula9", True, "error"),
        ("Autochanger { Name = a; Address = b; Password = c }", "bacula13", True, None),
    ],
)
def test_severity(text, dialect, strict, severity, read):
    reading = read(text, dialect=dialect, strict=strict)
    findings = {one.severity for one in reading.loaded.diagnostics.entries} - {"note"}
    assert findings == ({severity} if severity else set())


def test_a_retired_directive_names_its_replacement(read):
    reading = read("Pool { Name = p; Use Volume Once = yes }")
    assert "Maximum Volume Jobs" in reading.warnings[0]


def test_every_deprecated_directive_says_what_to_do():
    found = 0
    for component in schema().components.values():
        for resource in component.resources.values():
            for spec in resource.directives:
                assert bool(spec.instead) is bool(spec.deprecated), spec
                found += bool(spec.deprecated)
    assert found > 30


def test_a_deprecated_directive_names_its_replacement(read):
    assert read(DEPRECATED).warnings[0].endswith("since 23.0.0; use Auto Prune of the Pool")


def test_ktls_has_modes_of_ours(read):
    text = "Client { Name = c; Enable kTLS = require }"
    assert read(text, "agent").errors == []
    assert read(text, "agent").typed("enablektls") == "require"
    assert read(text, "agent", strict=True).errors


def test_every_dialect_has_a_name():
    for name in ("bareos23", "bareos24", "bareos25", "bareos26", "bacula9", "bacula15"):
        assert dialect_named(name).name == name
    with pytest.raises(UsageError):
        dialect_named("bareos99")


TREE_WITH_A_SLIP = {
    "director.d/director/dir.conf": (
        "Director { Name = dir; Password = p; Messages = m }\n"
        "Catalog { Name = c; DB Name = a; DB User = b }\nMessages { Name = m; Console = all }\n"
        "Client { Name = c; Address = h; Password = p }\n"
        "FileSet { Name = f; Include { File = / } }\n"
        "Storage { Name = s; Address = h; Password = p; Device = d; Media Type = File }\n"
        "Job { Name = j; Type = Backup; Client = c; FileSet = f; Storage = s; Pool = p; "
        "Messages = m }\n"
    ),
    "director.d/client/agent.conf": (
        "Pool {\n  Name = p\n  Keep Dialy = 7\n  Minimum Retension = 7 days\n}\n"
    ),
}


def _tree(folder, stem):
    for name, text in TREE_WITH_A_SLIP.items():
        file = folder / name.replace("director.d", stem, 1)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


@pytest.mark.parametrize("stem", ["director.d", "bareos-dir.d", "bacula-dir.d"])
def test_the_names_of_folders_say_whether_a_misspelt_directive_is_an_error(stem, config, tmp_path):
    is_own = stem == "director.d"
    done = config("check", str(_tree(tmp_path, stem)))
    severity = "error" if is_own else "warning"
    for line, slip, meant in (
        (3, "Keep Dialy", "Keep Daily"),
        (4, "Minimum Retension", "Minimum Retention"),
    ):
        place = f"{tmp_path / stem}/client/agent.conf:{line}:3"
        assert (
            f"{place}: {severity}: Pool has no directive {slip}; did you mean {meant}?"
            in done.stdout
        )
    assert done.returncode == (40 if is_own else 0)
    lenient = "unknown directives are warnings, as in a tree of Bareos: director"
    assert (lenient in done.stdout) is not is_own


def test_a_file_of_an_own_tree_is_judged_as_the_tree(config, tmp_path):
    file = _tree(tmp_path, "director.d") / "director.d" / "client" / "agent.conf"
    assert config("check", "--fragment", str(file)).returncode == 40
    foreign = _tree(tmp_path, "bareos-dir.d") / "bareos-dir.d" / "client" / "agent.conf"
    assert config("check", "--fragment", str(foreign)).returncode == 0


def test_a_stated_dialect_counts_more_than_names(config, tmp_path):
    _tree(tmp_path, "director.d")
    assert config("check", "--dialect", "bareos26", str(tmp_path)).returncode == 0
    assert config("check", "--dialect", "strongroom", str(tmp_path)).returncode == 40
