"""The lexer's rules, statement by statement."""

from __future__ import annotations

import pytest


def pool(value: str, name: str = "Label Format") -> str:
    return f"Pool {{\n  Name = p\n  {name} = {value}\n}}\n"


@pytest.mark.parametrize(
    ("value", "read_as"),
    [
        ("My Pool", "MyPool"),
        ("My Pool 2", "MyPool2"),
        ('"My Pool"', "My Pool"),
        (r'"a\"b\\c\n"', r"a\"b\\c\n".replace(r"\"", '"').replace(r"\\", "\\").replace(r"\n", "n")),
        ('"a" "b"', "ab"),
        ('"a"\n   "b"', "ab"),
        ('"a"\r\n"b"', "ab"),
        ('"a\nb"', "a\nb"),
        ('"a\r\nb"', "a\nb"),
        ("a#b", "a"),
        (r"a\b", r"a\b"),
        ("7z", "7z"),
    ],
)
def test_strings(value, read_as, read):
    reading = read(pool(value))
    assert reading.errors == []
    assert reading.directives["LabelFormat"] == read_as


def test_a_quoted_string_does_not_go_on_after_an_empty_line(read):
    reading = read('Pool {\n Name = p\n Label Format = "a"\n\n "b"\n}')
    assert reading.directives["LabelFormat"] == "a"
    assert len(reading.errors) == 1


def test_newlines_in_strings_were_dropped_before_24(read):
    assert read(pool('"a\nb"'), dialect="bareos23").directives["LabelFormat"] == "ab"


def test_names_may_hold_blanks_anywhere_in_any_case(read):
    reading = read("pOOl {\n N a me = p\n MAX imum\tVol umes = 3 }")
    assert reading.errors == []
    assert reading.resources == [["Pool", [["Name", "p"], ["MaximumVolumes", "3"]]]]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_line_ends(ends, read):
    text = ends.join(["Pool", "{", "Name", "= p # why", "Recycle = yes", "}"])
    reading = read(text)
    assert reading.errors == []
    assert reading.directives == {"Name": "p", "Recycle": "yes"}


def test_a_measure_may_begin_on_the_next_line_and_a_string_may_not(read):
    assert read(pool("\n\n  # c\n 3 days", "Volume Retention")).typed("volumeretention") == 259200
    reading = read(pool("\n x"))
    assert "no value" in reading.errors[0]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("9", "Name"),
        ("1234", "Label Format"),
        ("1", "Recycle"),
        ("-5", "Maximum Volumes"),
        ("10k", "Maximum Volumes"),
        ('"5g"', "Maximum Volume Bytes"),
        ("", "Recycle"),
        ("{ }", "Recycle"),
    ],
)
def test_values_that_are_rejected(value, name, read):
    assert read(pool(value, name)).errors


def test_numbers_keep_the_digits_in_front(read):
    reading = read(pool("1e3", "Maximum Volumes"))
    assert reading.typed("maximumvolumes") == 1
    assert "only the digits in front count" in reading.notes[0]


def test_lists_take_commas_on_one_line_and_repetition(read):
    reading = read('Profile {\n Name = p\n Job ACL = a, "b",!c\n Job ACL = *all*\n}')
    assert reading.errors == []
    assert reading.resources[0][1][1:] == [["JobAcl", ["a", "b", "!c"]], ["JobAcl", ["*all*"]]]


@pytest.mark.parametrize("value", ["a,", "a,,b", ",a", '"a b"'])
def test_lists_that_are_rejected(value, read):
    assert read(f"Profile {{\n Name = p\n Job ACL = {value}\n}}").errors


def test_addresses(read):
    reading = read(
        "Director {\n Name = d\n Password = x\n Addresses = {\n"
        "  ip = { addr = 10.0.0.1; port = 9101 }"
        "\n  # all of it\n  IPv6 = {\n addr = ::1\n }\n }\n}"
    )
    assert reading.errors == []
    assert reading.directives["Addresses"] == [
        ["ip", [["addr", "10.0.0.1"], ["port", "9101"]]],
        ["ipv6", [["addr", "::1"]]],
    ]
    assert [one.host for one in reading.typed("addresses")] == ["10.0.0.1", "::1"]


@pytest.mark.parametrize(
    "block", ["{ }", "{ ip { addr = x } }", "{ ip = { } }", "x", "{ ip = { addr"]
)
def test_addresses_that_are_rejected(block, read):
    assert read(f"Director {{\n Name = d\n Password = x\n Addresses = {block}\n}}").errors


def test_passwords_are_kept_as_md5_and_not_shown(read):
    reading = read("Client {\n Name = c\n Address = a\n Password = secret\n}")
    password = reading.typed("password")
    assert password.md5_hex == "5ebe2294ecd0e0f08eab7690d2a6ee69"
    assert "secret" not in repr(password)


def test_the_protocol_before_the_password_keeps_it_clear(read):
    text = "Client {\n Name = c\n Address = a\n Protocol = NDMPv4\n Password = secret\n}"
    password = read(text).typed("password")
    assert (password.md5_hex, password.clear) == (None, "secret")


@pytest.mark.parametrize(
    ("encoded", "wrong"),
    [(b"\xef\xbb\xbfPool { Name = p }", False), ("Pool { Name = p }".encode("utf-16"), True)],
)
def test_byte_order_marks(encoded, wrong, read):
    assert bool(read(encoded).errors) is wrong


def test_bytes_that_are_not_utf8_survive_in_strings(read):
    reading = read(b'Pool { Name = p; Label Format = "\xff\xfe" }')
    assert reading.errors == []
    assert reading.directives["LabelFormat"].encode("utf-8", "surrogateescape") == b"\xff\xfe"


@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        ("Regex = '^/a(b|c)[[:digit:]]{2,3}$'", True),
        ("Regex = a(b", False),
        ('Regex = "a[b"', False),
        ('Regex = "[b-a]"', False),
        ('Regex = "[[:nix:]]"', False),
        ('Regex = "a{x}"', False),
        ('Regex = "a\\\\"', False),
        ("Size = 10k-20k", True),
        ("Size = <1g", True),
        ("Size = many", False),
        ("Strip Path = two", False),
        ("Verify = pins5", True),
        ("Verify = pinsA", False),
        ("Accurate = A", True),
        ("Accurate = yes", False),
        ("Sparse = on", False),
        ("Signature = MD6", False),
        ("Shadowing = localwarn", True),
        ("Compression = GZIP9", True),
    ],
)
def test_fileset_options(options, accepted, read):
    options = options.replace("'", '"')
    reading = read(f"FileSet {{\n Name = f\n Include {{\n Options {{\n {options}\n }}\n }}\n}}")
    assert (not reading.errors) is accepted


def test_runscript_and_its_short_forms(read):
    reading = read(
        'Job {\n Name = j\n Run Before Job = "a b"\n RunScript {\n  Command = "c d"\n'
        "  Runs When = After\n  Runs On Client = no\n  Fail Job On Error = no\n }\n}"
    )
    assert reading.errors == []
    assert reading.directives["RunBeforeJob"] == "a b"
    assert reading.directives["RunScript"] == [
        ["Command", "c d"],
        ["RunsWhen", "After"],
        ["RunsOnClient", "no"],
        ["FailJobOnError", "no"],
    ]
