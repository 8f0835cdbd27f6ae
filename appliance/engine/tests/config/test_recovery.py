"""All errors of a text come out in one pass, each at its place, and parsing resumes after it."""

from __future__ import annotations

import pytest

BROKEN = """\
Pool {
  Name = one
  Recycle = on
  Bogus Thing = 3
  Maximum_Volumes = 4
  Label Format = kept
}
Clinet {
  Name = c
  Address { a }
}
Job {
  Name = j
  Level = Fulll
Pool {
  Name = two
  Recycle yes
}
}
Schedule { Name = s
  Run = Full mon
  Run = Full sat 1:00
}
"""


def test_every_error_is_found_and_what_is_right_is_kept(read):
    reading = read(BROKEN)
    assert [(one.place[1], one.place[2]) for one in reading.loaded.diagnostics.sorted("error")] == [
        (3, 13),
        (4, 3),
        (5, 3),
        (8, 1),
        (14, 11),
        (15, 1),
        (17, 3),
        (19, 1),
        (22, 18),
    ]
    assert reading.codes("warning") == []
    kinds = [(kind, dict(directives)) for kind, directives in reading.resources]
    assert kinds[0] == ("Pool", {"Name": "one", "LabelFormat": "kept"})
    assert [kind for kind, _ in kinds] == ["Pool", "Job", "Pool", "Schedule"]


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("Pool { Name = p; Recicle = yes }", "Recycle"),
        ("Pool { Name = p; Maximum_Volumes = 3 }", "Maximum Volumes"),
        ("Pol { Name = p }", "Pool"),
        ("Pool { Name = p; Recycle = on }", "yes"),
        ("Pool { Name = p; Pool Type = Bakcup\n }", "Backup"),
        ("Pool { Name = p; Maximum Volume Bytes = 5GiB\n }", "5G"),
        ("Messages { Name = m; Console = al, !skippd\n }", "all"),
    ],
)
def test_what_was_probably_meant(text, suggestion, read):
    findings = read(text).loaded.diagnostics.sorted()
    assert f"; did you mean {suggestion}?" in findings[0].head()


def test_a_finding_shows_its_line_and_a_caret(read):
    finding = read(BROKEN).loaded.diagnostics.sorted("error")[0]
    assert finding.render() == (
        "t.conf:3:13: error: Recycle takes yes or no, not 'on'; did you mean yes?\n"
        "      Recycle = on\n"
        "                ^~"
    )
    assert ("error", "error:") in finding.pieces()


def test_a_very_long_line_is_shown_around_the_place(read):
    text = "Pool { Name = p; " + "Recycle = yes; " * 5000 + "Recycle = on }"
    finding = read(text).loaded.diagnostics.sorted("error")[0]
    shown = finding.render().splitlines()
    assert len(shown[1]) < 200
    assert shown[1][shown[2].index("^") :].startswith("on }")


def test_directives_of_another_daemon_are_named(read):
    reading = read("Client { Name = c; Address = a; Password = b; Pki Cipher = aes128 }")
    assert "it belongs to Client of the agent" in reading.errors[0]


def test_a_resource_of_another_daemon_is_named(read):
    assert "it belongs to the storage" in read("Device { Name = d }").errors[0]


def test_names_are_unique_within_a_type(read):
    reading = read("Pool { Name = p }\nPool { Name = P }\nCatalog { Name = p }\nPool { Name = p }")
    assert reading.codes("error") == ["duplicate"]
    assert "t.conf:1" in reading.errors[0]


def test_notes_tell_what_is_read_otherwise_than_it_looks(read):
    reading = read("Pool {\n Name = p\n Label Format = My Pool\n Recycle = no\n Recycle = yes\n}")
    assert [one.code for one in reading.loaded.diagnostics.sorted("note")] == [
        "blanks-dropped",
        "given-twice",
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            'Wild Dir = "/a", "/b"',
            '2:32: error: the rest of the line is ignored: , "/b"; repeat Wild Dir',
        ),
        (
            'Regex = "a" Regex = "b"',
            '2:29: error: the rest of the line is ignored: Regex = "b"; begin',
        ),
        (
            "} File = /a  File = /b; Options {",
            "2:30: error: the rest of the line is ignored: File = /b; begin",
        ),
        (
            "} File = /a, /b; Options {",
            "2:28: error: the rest of the line is ignored: , /b; repeat File",
        ),
        ("} File = /a b; Options {", "2:29: error: the rest of the line is ignored: b; begin a"),
    ],
)
def test_a_second_value_on_a_line_is_never_lost_in_silence(read, line, told):
    reading = read(f"FileSet {{ Name = f; Include {{\n      Options {{ {line}\n }} }} }}")
    (error,) = reading.errors
    assert f"t.conf:{told}" in error


def test_werror_makes_errors_of_warnings(read):
    assert read("Pool { Name = p; Foo = 1 }", werror=True).codes("error") == ["unknown-directive"]


@pytest.mark.parametrize(
    "text",
    [
        "}",
        "}}}",
        "{",
        "=",
        ",",
        '"',
        '"x',
        "Pool",
        "Pool {",
        "Pool { Name",
        "Pool { Name =",
        "@",
        "a b c",
        "Pool { Name = p",
        "Name = x",
        "Pool { Name = p } }",
        "\\",
        "@|",
        '@"',
        "Pool { { { {",
        "\x00",
        ";;;{",
    ],
)
def test_fragments_give_errors_at_a_place(text, read):
    assert read(text).errors


def test_the_number_of_findings_is_bounded(read):
    from strongroom.config.language.sources import LoadLimits

    reading = read(
        "Pool { Name = p\n" + "Foo = 1\n" * 500 + "}", limits=LoadLimits(diagnostics=100)
    )
    assert len(reading.loaded.diagnostics.entries) == 100
    assert reading.loaded.diagnostics.dropped == 400


def test_what_a_file_holds_does_not_drive_the_terminal(read):
    reading = read(b"Pool { Name = p\n Label\x1b[31m = x\n Pool Type = \x1b]0;\xff\n}")
    assert len(reading.errors) == 3
    for finding in reading.loaded.diagnostics.sorted():
        shown = finding.render()
        assert "\x1b" not in shown
        shown.encode("utf-8")


def test_messages_are_of_bounded_length(read):
    reading = read("Pool { Name = p; Volume Retention = " + "1 d " * 9000 + "x\n}")
    assert len(reading.errors[0]) < 500
