"""What belongs to which dialect, and what strictness makes of it."""

from __future__ import annotations

import pytest

from strongroom.config.table.dialects import dialect_named
from strongroom.config.table.schema import schema
from strongroom.errors import UsageError

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
        ("Pool { Name = p; Foo = 1 }", None, False, "warning"),
        ("Pool { Name = p; Foo = 1 }", None, True, "error"),
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
