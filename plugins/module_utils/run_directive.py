# Copyright (c) Strongroom contributors
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is wrong with a Run directive of a schedule, such as C(Full 1st sun at 2:05), and how often it is due.

First come a level and overrides such as C(Pool=Monthly), then the time. The engine takes the same, and tests compare.
"""

from __future__ import annotations

import difflib
import re

_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_POSITIONS = ("1st", "first", "2nd", "second", "3rd", "third", "4th", "fourth", "5th", "fifth")
# Word -> what it says: its kind, and its number among those.
_NAMED = {
    **{word: ("day", number) for number, name in enumerate(_DAYS) for word in (name, name[:3])},
    **{word: ("month", number) for number, name in enumerate(_MONTHS) for word in (name, name[:3])},
    **{word: ("position", number // 2) for number, word in enumerate(_POSITIONS)},
}
_ALONE = ("on", "at", "hourly", "daily", "weekly", "monthly", "last", "lastday")
LEVELS = (
    *("full", "base", "incremental", "differential", "since", "virtualfull"),
    *("catalog", "initcatalog", "volumetocatalog", "disktocatalog", "data"),
)
# Override -> what its value looks like.
_NAME = r'"[^"]*"|[^\s,="]*[^\s,="0-9][^\s,="]*'
_OVERRIDES = {
    **dict.fromkeys(
        ("pool", "fullpool", "incrementalpool", "differentialpool", "nextpool", "storage", "messages"), _NAME
    ),
    "level": "|".join(LEVELS),
    "priority": "[0-9]+",
    "spooldata": "yes|no|true|false",
    "accurate": "yes|no|true|false",
    "maxrunschedtime": '"[^"]+"',
}
_HEAD = re.compile(r'\s*(?:([a-z]+)\s*=\s*("[^"]*"|[^\s,="]+)|(%s)(?![^\s]))' % "|".join(LEVELS), re.IGNORECASE)
_CLOCK = re.compile(r"([0-9]+):([0-9]{2})(am|pm)?")
_SPAN = re.compile(r"(w?)([0-9]+)(?:([-/])(w?)([0-9]+))?")


def run(given):
    """A Run directive: what is wrong with it, or nothing."""
    if re.search(r"[\x00-\x1f\x7f]", given):
        return "has a line break or a control character"
    place = 0
    while True:
        head = _HEAD.match(given, place)
        if head is None:
            break
        key, value = (head.group(1) or "").lower(), head.group(2)
        if key and key not in _OVERRIDES:
            return "has %s=, which no run can set%s" % (head.group(1), _meant(key, _OVERRIDES))
        if key and not re.fullmatch(_OVERRIDES[key], value, re.IGNORECASE):
            return "has %s=%s, which it cannot be" % (head.group(1), value)
        place = head.end()
    words = given[place:].replace(",", " ").split()
    if not words:
        return "has no time, such as `mon-fri at 21:00`"
    if given[place:].strip().startswith(",") or words[0].isdigit():
        return "has a time that begins with a number or a comma; write `on 1`"
    return _wrong_time(words)


def _wrong_time(words):
    had_at = False
    for shown in words:
        word = shown.lower()
        had_at = had_at or word == "at"
        clock = _CLOCK.fullmatch(word)
        if clock and not had_at:
            return "has the time %s without the word `at` before it" % shown
        if clock and not _is_clock(*clock.groups()):
            return "has %s, which is not a time of day" % shown
        if not clock and word not in _ALONE and not _is_set(word):
            return "has %s, which is not part of a time%s" % (shown, _meant(word, (*LEVELS, *_NAMED, *_ALONE)))
    return ""


def _is_clock(hour, minute, half):
    counted = int(hour) + (12 if half == "pm" and int(hour) != 12 else -12 if half == "am" and int(hour) == 12 else 0)
    return 0 <= counted <= 23 and int(minute) <= 59


def _is_set(word):
    """Whether it names days, weeks or months: one, a range, or every so many."""
    ends = word.split("-")
    if all(end in _NAMED for end in ends):
        kinds = [_NAMED[end] for end in ends]
        return len(ends) == 1 or (len(ends) == 2 and kinds[0][0] == kinds[1][0] and kinds[0] != kinds[1])
    match = _SPAN.fullmatch(word)
    if match is None:
        return False
    week, first, sign, other_week, last = match.groups()
    if (week and (len(first) != 2 or (sign and len(last) != 2))) or (sign and week != other_week):
        return False
    low, high = (0, 53) if week else (1, 31)
    if sign == "/":
        return low <= int(first) <= high and 1 <= int(last) <= (53 if week else 30) and int(first) - low <= int(last)
    return all(low <= int(end) <= high for end in (first, last or first))


def _meant(word, known):
    found = difflib.get_close_matches(word, list(known), 1, 0.75)
    return "; did you mean %s?" % found[0] if found else ""


def run_step_days(given):
    """Days between two times of a Run directive, about: the shortest step that retention is compared with."""
    words = given.lower()
    if "hourly" in words:
        return 1.0 / 24
    if re.search(r"\b(yearly|w[0-9]{2})\b", words):
        return 28.0
    if re.search(r"\b(1st|2nd|3rd|4th|5th|first|second|third|fourth|fifth|last|monthly|on [0-9])", words):
        return 28.0
    days = re.findall(r"\b(%s)[a-z]*" % "|".join(day[:3] for day in _DAYS), words)
    if "weekly" in words or (len(days) == 1 and "-" not in words):
        return 7.0
    return 1.0
