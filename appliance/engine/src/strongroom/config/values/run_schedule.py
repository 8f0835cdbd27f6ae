"""`Run =` of a Schedule: level, overrides, and when.

    Run = Level=Full Pool=Monthly 1st sun at 2:05

First come overrides and a level, then the time; a time may not begin with a bare number. Every
part of the time names a set (hours, weekdays, months, weeks of the month, weeks of the year, days
of the month); parts of one kind add up, kinds must all hold. Without a time of day every hour
holds, at minute 0, whatever the documentation of the original says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

from pyparsing import (
    CaselessLiteral,
    Char,
    Group,
    Literal,
    Opt,
    ParseException,
    ParserElement,
    ParseResults,
    Regex,
    Word,
    nums,
    one_of,
)

from strongroom.config.table.types import LEVELS
from strongroom.config.values.measures import duration_seconds

_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_POSITIONS = (
    ("1st", "first"),
    ("2nd", "second"),
    ("3rd", "third"),
    ("4th", "fourth"),
    ("5th", "fifth"),
)
_LEVELS = {level.lower(): level for level in LEVELS}


class Override(NamedTuple):
    """What a Run sets for the runs it starts. kind: the resource it names, or what its value is."""

    shown: str
    attribute: str
    kind: str


# By key, in lower case.
OVERRIDES = {
    one.shown.lower(): one
    for one in (
        Override("Pool", "pool", "Pool"),
        Override("FullPool", "full_pool", "Pool"),
        Override("IncrementalPool", "incremental_pool", "Pool"),
        Override("DifferentialPool", "differential_pool", "Pool"),
        Override("NextPool", "next_pool", "Pool"),
        Override("Level", "level", "level"),
        Override("Storage", "storage", "Storage"),
        Override("Messages", "messages", "Messages"),
        Override("Priority", "priority", "integer"),
        Override("SpoolData", "spool_data", "bool"),
        Override("Accurate", "accurate", "bool"),
        Override("MaxRunSchedTime", "max_run_sched_time_seconds", "duration"),
    )
}
_BOOLS = {"yes": True, "true": True, "no": False, "false": False}
_KEYWORDS: dict[str, tuple[str, int]] = {
    **{name: ("weekdays", day) for day, name in enumerate(_DAYS)},
    **{name[:3]: ("weekdays", day) for day, name in enumerate(_DAYS)},
    **{name: ("months", month) for month, name in enumerate(_MONTHS, 1)},
    **{name[:3]: ("months", month) for month, name in enumerate(_MONTHS, 1)},
    **{
        name: ("weeks_of_month", number)
        for number, names in enumerate(_POSITIONS, 1)
        for name in names
    },
}
_SPANS = {
    "weekdays": (0, 6),
    "months": (1, 12),
    "weeks_of_month": (1, 5),
    "days": (1, 31),
    "weeks_of_year": (0, 53),
}


# What a word that means nothing may have been meant for.
RUN_WORDS = (
    *_LEVELS.values(),
    *(word for word in _KEYWORDS if len(word) > 3),
    *("hourly", "daily", "weekly", "monthly", "last", "lastday"),
)


class RunError(Exception):
    """What is wrong, and the number of the token it is at."""

    def __init__(self, message: str, token: int) -> None:
        super().__init__(message)
        self.token = token


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """One `Run =`. Sets are sorted tuples; weekdays count from Sunday = 0, months and days from 1.

    A run is due in a minute whose hour, weekday, month, day of the month and week of the year are
    in the sets and whose week of the month is in `weeks_of_month`, or in the last seven days of
    the month where `last_week` is set; `last_day`: or on the last day of the month, of the days.
    Overrides that name a resource are its name.
    """

    level: str | None
    hours: tuple[int, ...]
    minute: int
    weekdays: tuple[int, ...]
    months: tuple[int, ...]
    days: tuple[int, ...]
    weeks_of_month: tuple[int, ...]
    weeks_of_year: tuple[int, ...]
    last_week: bool
    pool: str | None = None
    full_pool: str | None = None
    incremental_pool: str | None = None
    differential_pool: str | None = None
    next_pool: str | None = None
    storage: str | None = None
    messages: str | None = None
    priority: int | None = None
    spool_data: bool | None = None
    accurate: bool | None = None
    max_run_sched_time_seconds: int | None = None
    last_day: bool = False


def parse_run(kinds: str, texts: list[str]) -> tuple[dict[str, Any], ScheduleRun]:
    """The tokens of a value as (plain data as written, the run). Raises RunError."""
    letters = _letters(kinds, texts)
    try:
        layout = _layout(letters)
    except ParseException as problem:
        raise _misplaced(letters, kinds, texts, min(problem.loc, len(letters))) from None
    data: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for kind, start, end in layout[:-1]:
        if kind == "level":
            data["level"] = texts[start].lower()
            values["level"] = _LEVELS[texts[start].lower()]
        else:
            name = texts[start].lower()
            data[name] = texts[end]
            value = _override(name, kinds[end], texts[end], end)
            values[OVERRIDES[name].attribute] = value
    _, start, _ = layout[-1]
    when = [index for index in range(start, len(kinds)) if kinds[index] != ","]
    data["when"] = [texts[index].lower() for index in when]
    sets = _when(kinds, texts, when)
    return data, ScheduleRun(level=values.pop("level", None), **sets, **values)


def _letters(kinds: str, texts: list[str]) -> str:
    """One letter a token: F override, = , L level, n number, W anything that may say when."""
    letters = []
    for index, kind in enumerate(kinds):
        word = texts[index].lower()
        if kind in "=,{n":
            letters.append(kind)
        elif word in OVERRIDES and kinds[index + 1 : index + 2] == "=":
            letters.append("F")
        elif word in _LEVELS:
            letters.append("L")
        else:
            letters.append("q" if kind == "q" else "W")
    return "".join(letters)


@cache
def _grammar() -> ParserElement:
    def place(kind: str) -> Any:
        def locate(_: str, location: int, parts: ParseResults) -> list[tuple[str, int, int]]:
            return [(kind, location, location + len("".join(parts)) - 1)]

        return locate

    override = (Literal("F") + "=" + Char("FLWqn")).set_parse_action(place("override"))
    level = Char("L").set_parse_action(place("level"))
    when = Regex("[Wq][Wn,]*").set_parse_action(place("when"))
    grammar: ParserElement = (override | level)[...] + when
    return grammar


@lru_cache(maxsize=1024)
def _layout(letters: str) -> list[tuple[str, int, int]]:
    return list(_grammar().parse_string(letters, parse_all=True))


def _misplaced(letters: str, kinds: str, texts: list[str], index: int) -> RunError:
    if index >= len(letters):
        return RunError("a run needs a time, such as `mon-fri at 21:00`", max(0, index - 1))
    word = texts[index]
    if letters[index] == "n":
        return RunError(f"a time cannot begin with the number {word}; write `on {word}`", index)
    if letters[index] == "L":
        return RunError(f"the level {word} must be before the time", index)
    if letters[index] == "F":
        return RunError(f"{word} must be before the time, and needs a value after its `=`", index)
    if kinds[index] == "=":
        return RunError(f"there is no override {texts[index - 1]}", max(0, index - 1))
    return RunError(f"`{word}` is not part of a time", index)


def _override(name: str, kind: str, text: str, token: int) -> Any:
    sort = OVERRIDES[name].kind
    if sort == "integer":
        if not text.isascii() or not text.isdecimal():
            raise RunError(f"{name} takes a number, not {text}", token)
        return int(text[:12])
    if kind == "n":
        raise RunError(f"{name} takes a name; put the number {text} in quotes", token)
    if sort == "bool":
        if text.lower() not in _BOOLS:
            raise RunError(f"{name} takes yes or no, not {text}", token)
        return _BOOLS[text.lower()]
    if sort == "duration":
        seconds = duration_seconds(text)
        if kind != "q" or seconds is None:
            raise RunError(f'{name} takes a duration in quotes, such as "2 h", not {text}', token)
        return seconds
    if sort == "level":
        if text.lower() not in _LEVELS:
            raise RunError(f"there is no level {text}", token)
        return _LEVELS[text.lower()]
    return text


def _when(kinds: str, texts: list[str], tokens: list[int]) -> dict[str, Any]:
    chosen: dict[str, set[int]] = {}
    hours: set[int] | None = None
    minute = 0
    last_week = last_day = False
    at_seen = False
    for token in tokens:
        word = texts[token].lower()
        if word == "on":
            continue
        if word == "at":
            at_seen = True
        elif word == "hourly":
            hours = set(range(24))
        elif word in ("daily", "weekly", "monthly"):
            _widen(word, chosen)
        elif word == "last":
            last_week = True
            chosen.setdefault("weeks_of_month", set())
        elif word == "lastday":
            last_day = True
            chosen.setdefault("days", set())
        else:
            part = _part(word, kinds[token])
            if isinstance(part, str):
                raise RunError(part, token)
            kind, numbers = part
            if kind == "time":
                if not at_seen:
                    raise RunError(f"the time {texts[token]} needs the word `at` before it", token)
                hours = (hours or set()) | {numbers[0]}
                minute = numbers[1]
            else:
                chosen.setdefault(kind, set()).update(numbers)
    sets: dict[str, Any] = {}
    for kind, (low, high) in _SPANS.items():
        sets[kind] = tuple(sorted(chosen.get(kind, range(low, high + 1))))
    sets["hours"] = tuple(sorted(hours if hours is not None else range(24)))
    return {**sets, "minute": minute, "last_week": last_week, "last_day": last_day}


def _widen(word: str, chosen: dict[str, set[int]]) -> None:
    kinds = {
        "daily": ("weekdays",),
        "weekly": ("days", "weeks_of_month", "weeks_of_year"),
        "monthly": ("months",),
    }[word]
    for kind in kinds:
        low, high = _SPANS[kind]
        chosen.setdefault(kind, set()).update(range(low, high + 1))


@cache
def _part_grammar() -> ParserElement:
    number = Word(nums)
    week = CaselessLiteral("w").suppress() + Word(nums, exact=2)
    keyword = one_of(list(_KEYWORDS), caseless=True, as_keyword=True)
    time = number + ":" + Word(nums) + Opt(one_of("am pm", caseless=True), default="")
    forms = {
        "time": time,
        "week_range": week + "-" + week,
        "week_modulo": week + "/" + week,
        "week": week,
        "keyword_range": keyword + "-" + keyword,
        "day_range": number + "-" + number,
        "day_modulo": number + "/" + number,
        "keyword": keyword,
        "day": number,
    }
    alternatives = [Group(form)(name) + Literal("$").suppress() for name, form in forms.items()]
    grammar = alternatives[0]
    for alternative in alternatives[1:]:
        grammar = grammar | alternative
    return grammar.leave_whitespace()


@lru_cache(maxsize=2048)
def _part(word: str, kind: str) -> tuple[str, tuple[int, ...]] | str:
    """The set that one word names: (kind of set, its numbers), or what is wrong with the word."""
    if len(word) > 40 or "$" in word:
        return f"`{word[:40]}` is not part of a time"
    try:
        result = _part_grammar().parse_string(word + "$", parse_all=True)
    except ParseException:
        return f"`{word}` is not part of a time"
    form = str(result.get_name())
    parts = list(result[0])
    if form == "time":
        return _time(parts)
    if form == "keyword":
        name, number = _KEYWORDS[parts[0].lower()]
        return name, (number,)
    if form == "keyword_range":
        return _keyword_range(parts[0].lower(), parts[2].lower())
    name = "weeks_of_year" if form.startswith("week") else "days"
    numbers = [int(part) for part in parts if part.isdecimal()]
    low, high = _SPANS[name]
    if form.endswith("modulo"):
        return _modulo(name, numbers[0], numbers[1])
    if any(not low <= number <= high for number in numbers):
        return f"`{word}` is out of range: {low} to {high}"
    if form in ("day", "week"):
        return name, (numbers[0],)
    return name, _wrapped(numbers[0], numbers[1], low, high)


def _time(parts: list[str]) -> tuple[str, tuple[int, ...]] | str:
    hour, minute, half = int(parts[0]), int(parts[2]), parts[3]
    if len(parts[2]) != 2:
        return "minutes have two digits, such as 9:05"
    if half == "pm" and hour != 12:
        hour += 12
    elif half == "am" and hour == 12:
        hour = 0
    if hour > 23 or minute > 59:
        return f"{parts[0]}:{parts[2]}{half} is not a time of day; the last one is 23:59"
    return "time", (hour, minute)


def _keyword_range(first: str, last: str) -> tuple[str, tuple[int, ...]] | str:
    name, low = _KEYWORDS[first]
    other, high = _KEYWORDS[last]
    if name != other or low == high:
        return f"`{first}-{last}` is not a range"
    return name, _wrapped(low, high, *_SPANS[name])


def _wrapped(first: int, last: int, low: int, high: int) -> tuple[int, ...]:
    # A range of one day to itself is the whole month for Bareos: it goes once around.
    if first < last:
        return tuple(range(first, last + 1))
    return (*range(first, high + 1), *range(low, last + 1))


def _modulo(name: str, offset: int, step: int) -> tuple[str, tuple[int, ...]] | str:
    low, high = _SPANS[name]
    # Days count from 0 inside Bareos, so that the offset of day 3/2 is 2, which is not above 2.
    counted = offset - low
    if step < 1 or step > (30 if name == "days" else 53) or not low <= offset <= high:
        return f"{offset}/{step} is out of range: offset {low} to {high}, step from 1"
    if counted > step:
        return f"the offset of {offset}/{step} must not be larger than its step"
    return name, tuple(range(offset, high + 1, step))
