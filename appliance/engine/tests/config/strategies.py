"""Configurations made from the directive table, for hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from strongroom.config.language.grammar import shape_of
from strongroom.config.table.schema import DirectiveSpec, ResourceSpec, schema
from strongroom.config.table.types import MESSAGE_TYPES, OPTION_KEYWORDS, OWN_KEYWORDS, VALUE_TYPES
from strongroom.config.trees.printer import quoted
from strongroom.config.values.forms import form_of
from strongroom.config.values.notice_events import EVENT_WORDS
from strongroom.engine.knobs.table import knob_of_directive

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
NAMES = st.from_regex(r"\A[A-Za-z0-9:._/-]([A-Za-z0-9:._/ -]{0,20}[A-Za-z0-9:._/-])?\Z")
ANY_TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\r") | st.sampled_from('"\\#;{}=,@ \n'),
    max_size=30,
)
BLANKS = st.sampled_from([" ", "  ", "\t", ""])
NUMBERS = st.integers(0, 65535).map(str)
DURATIONS = st.lists(
    st.tuples(
        st.integers(0, 999), st.sampled_from(["s", "n", "mi", "hours", "day", "w", "m", "q", "y"])
    ),
    min_size=1,
    max_size=3,
).map(lambda parts: " ".join(f"{count} {unit}" for count, unit in parts))
SIZES = st.tuples(st.integers(0, 9999), st.sampled_from(["", "k", "kb", "M", "mb", "G"])).map(
    lambda pair: f"{pair[0]} {pair[1]}"
)
WHENS = st.sampled_from(
    [
        "mon-fri at 21:00",
        "1st,3rd sun at 2:05",
        "on 1 at 0:30",
        "last sat at 9:10pm",
        "w00/w02 sun at 23:10",
        "1/7 at 1:00",
        "jan-mar daily at 1:00 at 2:30",
        "hourly at 0:05",
        "sun",
    ]
)


def string_text(text: str, draw: Any) -> str:
    """`text` as a value: in quotes, in two pieces, or bare where that reads the same."""
    bare = text.isascii() and text.isalpha()
    choice = draw(st.integers(0, 2))
    if choice == 0 and bare:
        return text
    if choice == 1 and len(text) > 1:
        middle = len(text) // 2
        gap = draw(st.sampled_from([" ", "", "\n  "]))
        return quoted(text[:middle]) + gap + quoted(text[middle:])
    return quoted(text)


@st.composite
def values(draw: Any, spec: DirectiveSpec) -> str:
    """A value of `spec` as text, well formed."""
    kind = spec.type
    if kind == "NAME":
        return string_text(draw(NAMES), draw)
    if kind in ("BOOL", "BIT", "RUNSCRIPT_BOOL", "RUNSCRIPT_TARGET"):
        return draw(st.sampled_from(["yes", "no", "YES", '"no"']))
    if kind in ("PINT16", "PINT32", "INT32"):
        knob = knob_of_directive(spec.key)
        if knob is None:
            return draw(NUMBERS)
        return str(draw(st.integers(knob.least, min(knob.directive_most, 65535))))
    if kind == "TIME":
        return draw(DURATIONS)
    if kind in ("SIZE32", "SIZE64", "MAXBLOCKSIZE"):
        return draw(SIZES)
    if kind == "SPEED":
        return draw(NUMBERS) + draw(st.sampled_from([" k/s", "mb/s", " kb", ""]))
    if kind == "RUN":
        level = draw(st.sampled_from(["", "Full ", "Level=Incremental ", "Pool=p Priority=3 "]))
        return level + draw(WHENS)
    if kind == "MSGS":
        types = st.sampled_from([*MESSAGE_TYPES, *(f"!{one}" for one in MESSAGE_TYPES)])
        chosen = ", ".join(draw(st.lists(types, min_size=1, max_size=4)))
        form = form_of(spec)
        if form in "df":
            return f"{string_text(draw(NAMES), draw)} = {chosen}"
        return chosen
    if kind == "ADDRESSES_PORT":
        return str(draw(st.integers(1, 65535)))
    if kind == "ADDRESSES_ADDRESS":
        return draw(st.sampled_from(["localhost", "10.0.0.1", "::1", "a-b.example"]))
    if kind == "ADDRESSES":
        return "{ ip = { addr = 1.2.3.4; port = 9 }\n ipv6 = { addr = ::1 } }"
    if kind == "OPTION":
        fixed = {"Verify": "pins5", "Accurate": "mcs", "StripPath": "2", "Size": '"<10m"'}
        words = (*OPTION_KEYWORDS.get(spec.name, ()), *OWN_KEYWORDS.get(spec.name, ()))
        return fixed.get(spec.name) or draw(st.sampled_from(words))
    if kind == "KTLS":
        return draw(st.sampled_from(["yes", "no", "auto", "require"]))
    if words := VALUE_TYPES[kind].words:
        return draw(st.sampled_from(words))
    if kind == "ACL":
        entry = st.from_regex(r"\A[A-Za-z0-9!*.:_/-]{1,12}\Z")
        return ", ".join(quoted(one) for one in draw(st.lists(entry, min_size=1, max_size=4)))
    if kind == "NOTICE_EVENTS":
        words = st.sampled_from([*EVENT_WORDS, *(f"!{one}" for one in EVENT_WORDS)])
        return ", ".join(draw(st.lists(words, min_size=1, max_size=4)))
    if kind in ("ALIST_RES", "ALIST_STR", "AUDIT", "STR_VECTOR", "PLUGIN_NAMES"):
        entries = draw(st.lists(NAMES, min_size=1, max_size=4))
        return ", ".join(
            string_text(one, draw) if "\n" not in one else quoted(one) for one in entries
        )
    if kind == "FOLDERS":
        steps = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1)
        folders = st.lists(steps, max_size=3).map(lambda names: "/" + "/".join(names))
        return ", ".join(quoted(one) for one in draw(st.lists(folders, min_size=1, max_size=4)))
    if kind == "REGEX":
        return quoted(draw(st.sampled_from(["^/a.*b$", "[a-z]+", r"\.git(/|$)", "x{2,3}"])))
    if kind in ("RES", "STRNAME", "DEVICE", "EXCLUDEDIR"):
        return string_text(draw(NAMES), draw)
    return string_text(draw(ANY_TEXT.filter(lambda text: bool(text) or not spec.required)), draw)


@st.composite
def spelled(draw: Any, spec: DirectiveSpec) -> str:
    """A name as people write it: in any case, with blanks anywhere."""
    name = draw(st.sampled_from([spec.name, spec.shown_name, *spec.aliases]))
    if draw(st.booleans()):
        name = name.swapcase()
    if draw(st.integers(0, 4)) == 0:
        name = " ".join(name.replace(" ", ""))
    return name


@st.composite
def blocks(draw: Any, resource: ResourceSpec, title: str) -> str:
    """The text of a resource or block with some of its directives."""
    usable = [
        spec
        for spec in resource.directives
        if not (spec.retired and not spec.own) and not spec.bacula and spec.type != "NAME"
    ]
    if title == "Exclude":
        usable = [spec for spec in usable if spec.name == "File"]
    chosen = draw(st.lists(st.sampled_from(usable), max_size=6, unique_by=lambda spec: spec.key))
    lines = []
    if resource.component:
        name = next(spec for spec in resource.directives if spec.type == "NAME")
        lines.append(f"{draw(spelled(name))} = {draw(values(name))}")
    for spec in chosen:
        if spec.block:
            inner = schema().blocks[spec.block]
            lines.append(draw(blocks(inner, spec.block)))
        else:
            gap = draw(st.sampled_from([" = ", "=", " =  ", "\n = "]))
            lines.append(f"{draw(spelled(spec))}{gap}{draw(values(spec))}")
        if draw(st.integers(0, 5)) == 0:
            lines[-1] += "  # " + draw(st.text(_LETTERS + ' "{};', max_size=10))
    if draw(st.integers(0, 5)) == 0:
        lines.append("# " + draw(st.text(_LETTERS + ' "{}=;', max_size=10)))
    body = "\n".join(lines)
    return f"{title} {{\n{body}\n}}\n"


@st.composite
def configurations(draw: Any) -> tuple[str, str]:
    """(component, text) of a configuration whose names are unique."""
    component = draw(st.sampled_from(list(schema().components)))
    resources = [
        spec for spec in schema().components[component].resources.values() if not spec.deprecated
    ]
    chosen = draw(st.lists(st.sampled_from(resources), max_size=4, unique_by=lambda one: one.name))
    parts = [draw(blocks(spec, spec.name)) for spec in chosen]
    return component, draw(st.sampled_from(["", "\n", "# c\n\n"])).join(parts)


assert shape_of("t", "q")  # the grammar is built once, outside of the examples' time
