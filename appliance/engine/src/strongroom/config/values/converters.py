"""Tokens to typed values: one converter for every type of the directive table.

A converter is handed the strings that the grammar found and gives two things: the value as written
(what `parse --json` prints: names joined, quotes gone) and the typed value (seconds, bytes, True, a
Password). An invalid value raises UnfitValueError; an unlikely one is reported and accepted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from strongroom.base.errors import UsageError
from strongroom.config.language.diagnostics import NOTE, WARNING
from strongroom.config.table.schema import DirectiveSpec
from strongroom.config.table.types import OPTION_KEYWORDS, OWN_KEYWORDS
from strongroom.config.values.fileset_options import (
    letters_problem,
    regex_problem,
    size_match_problem,
    strip_path_problem,
)
from strongroom.config.values.forms import (
    Destination,
    Password,
    UnfitValueError,
    Words,
    is_message_type,
)
from strongroom.config.values.measures import duration_seconds, size_bytes, speed_bytes_per_second
from strongroom.config.values.notice_events import EVENT_WORDS
from strongroom.engine.knobs.table import knob_of_directive
from strongroom.engine.scan.share_folders import share_folders

NAME_LENGTH = 127
_NAME = re.compile(r"[A-Za-z0-9:.\-_/](?:[A-Za-z0-9:.\-_/ ]*[A-Za-z0-9:.\-_/])?\Z")
_ACL_ENTRY = re.compile(r"[A-Za-z0-9!()\[\]\\|+?*.:_\-'/]+\Z")
_MD5 = re.compile(r"[0-9a-fA-F]{32}\Z")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?\Z")
_DIGITS = re.compile(r"[0-9]+")
_BOOLS = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}


def convert(spec: DirectiveSpec, words: Words) -> tuple[Any, Any]:
    """The value as written and the typed value. Raises UnfitValueError."""
    text = words.groups[0][0]
    if spec.kind.is_name or spec.kind.words:
        for part, entry in enumerate(words.groups[0]):
            if len(entry) > NAME_LENGTH:
                raise UnfitValueError(
                    f"a name of {len(entry)} characters is too long; {NAME_LENGTH} is the most",
                    part,
                )
    converter = _CONVERTERS.get(spec.type)
    if converter is not None:
        return converter(spec, words)
    if spec.kind.words:
        return _keyword(spec, words)
    return text, text


def _name(spec: DirectiveSpec, words: Words) -> tuple[str, str]:
    text = words.groups[0][0]
    if not _NAME.match(text):
        if not text:
            raise UnfitValueError("a name must not be empty")
        odd = next((letter for letter in text if not _NAME.match(letter) and letter != " "), " ")
        where = "at its edge " if odd == " " else ""
        raise UnfitValueError(
            f"a name must not hold {odd!r} {where}(letters, digits, :.-_/ and inner blanks may)"
        )
    return text, text


def _bool(spec: DirectiveSpec, words: Words) -> tuple[str, bool]:
    text = words.groups[0][0]
    lowered = text.lower()
    value = _BOOLS.get(lowered)
    if value is None and words.dialect.is_bacula and spec.key == "autochanger":
        return text, True  # Bacula lets it name the changer
    if value is None:
        raise UnfitValueError(
            f"{spec.shown_name} takes yes or no, not {text!r}",
            suggestion={"on": "yes", "off": "no", "y": "yes", "n": "no"}.get(lowered, ""),
        )
    if lowered not in ("yes", "no") and not words.dialect.is_bacula and words.dialect.version >= 26:
        words.report(
            WARNING,
            "bool true/false",
            f"bool true/false: {text} is deprecated; write {'yes' if value else 'no'}",
        )
    return text, value


def _integer(spec: DirectiveSpec, words: Words) -> tuple[str, int]:
    text = words.groups[0][0]
    if not _NUMBER.match(text):
        raise UnfitValueError(f"{spec.shown_name} takes a positive whole number, not {text!r}")
    digits = _DIGITS.match(text)
    value = int(digits[0][:20]) if digits else 0
    if digits and digits[0] != text:
        words.report(
            NOTE, "number-cut", f"{text} is read as {value}: only the digits in front count"
        )
    knob = knob_of_directive(spec.key)
    if knob is not None and not knob.least <= value <= knob.directive_most:
        raise UnfitValueError(
            f"{spec.shown_name} takes a whole number from {knob.least} to {knob.directive_most}, "
            f"not {text}"
        )
    if value > spec.kind.largest:
        words.report(WARNING, "number-too-large", f"{text} is too large for {spec.shown_name}")
        value = spec.kind.largest
    return text, value


def _duration(spec: DirectiveSpec, words: Words) -> tuple[str, int]:
    text = words.groups[0][0]
    seconds = duration_seconds(text)
    if seconds is None:
        raise UnfitValueError(
            f"{text!r} is not a duration; write such as 30 days, 1 hour 30 min, 90",
            suggestion=text[:-1]
            if text.endswith("s") and duration_seconds(text[:-1]) is not None
            else "",
        )
    return text, seconds


def _size(spec: DirectiveSpec, words: Words) -> tuple[str, int]:
    text = words.groups[0][0]
    size = size_bytes(text)
    if size is None:
        meant = re.sub(r"(?i)ib\b", "", text)
        raise UnfitValueError(
            f"{text!r} is not a size; units are k m g t p e (1024) and kb mb gb ... (1000)",
            suggestion=meant if meant != text and size_bytes(meant) is not None else "",
        )
    if size > spec.kind.largest:
        words.report(WARNING, "number-too-large", f"{text} is too large for {spec.shown_name}")
    return text, size


def _speed(spec: DirectiveSpec, words: Words) -> tuple[str, int]:
    text = words.groups[0][0]
    speed = speed_bytes_per_second(text)
    if speed is None:
        raise UnfitValueError(
            f"{text!r} is not a speed; units are k/s m/s (1024) and kb/s mb/s (1000)"
        )
    return text, speed


def _password(spec: DirectiveSpec, words: Words) -> tuple[str, Password]:
    text = words.groups[0][0]
    if not text and spec.required:
        raise UnfitValueError(f"{spec.shown_name} must not be empty")
    if spec.code == "1" or spec.name == "DbPassword" or words.needs_clear_password:
        return text, Password(None, text)
    if text.startswith("[md5]"):
        if not _MD5.match(text[5:]):
            words.report(WARNING, "md5-form", "after [md5] stand 32 hexadecimal digits")
        return text, Password(text[5:].lower(), None)
    # MD5 is what the protocol of Bareos prescribes; nothing of ours relies on it.
    digest = hashlib.md5(text.encode("utf-8", "surrogateescape"), usedforsecurity=False)
    return text, Password(digest.hexdigest(), text)


def _list(spec: DirectiveSpec, words: Words) -> tuple[list[str], tuple[str, ...]]:
    entries = words.groups[0]
    return entries, tuple(entries)


def _folders(spec: DirectiveSpec, words: Words) -> tuple[list[str], tuple[str, ...]]:
    entries = words.groups[0]
    for part, entry in enumerate(entries):
        try:
            share_folders([entry])
        except UsageError as error:
            raise UnfitValueError(f"{spec.shown_name}: {error}", part) from error
    if "" in entries and len(entries) > 1:
        raise UnfitValueError(f'{spec.shown_name}: "" means no folder, so name no others')
    return entries, share_folders(entries)


def _acl(spec: DirectiveSpec, words: Words) -> tuple[list[str], tuple[str, ...]]:
    for part, entry in enumerate(words.groups[0]):
        if not _ACL_ENTRY.match(entry):
            raise UnfitValueError(
                f"{entry!r} cannot be in a list of permissions: letters, digits and "
                "!()[]\\|+?*.:_-'/ may",
                part,
            )
    return _list(spec, words)


def _plugin_names(spec: DirectiveSpec, words: Words) -> tuple[list[str], tuple[str, ...]]:
    names = []
    for text, kind in zip(words.groups[0], words.kinds[0], strict=True):
        names += [name for name in text.split(":") if name] if kind != "q" else [text]
    return names, tuple(names)


def _keyword(spec: DirectiveSpec, words: Words) -> tuple[str, str]:
    text = words.groups[0][0]
    known, of_bacula = spec.kind.words, spec.kind.words_of_bacula
    for word in (*known, *(of_bacula if words.dialect.is_bacula or not words.strict else ())):
        if word.lower() == text.lower():
            return text, word
    raise UnfitValueError(
        f"{spec.shown_name} takes one of {', '.join(known)}, not {text!r}",
        suggestion=words.suggest(text, known),
    )


def _ktls(spec: DirectiveSpec, words: Words) -> tuple[str, str]:
    text = words.groups[0][0]
    if text.lower() in ("auto", "require"):
        if not words.dialect.has_own:
            raise UnfitValueError(
                f"{text} is a value of Strongroom's that {words.dialect.name} rejects", code="own"
            )
        return text, text.lower()
    written, value = _bool(spec, words)
    return written, "yes" if value else "no"


def _option(spec: DirectiveSpec, words: Words) -> tuple[str, Any]:
    text = words.groups[0][0]
    problem = {"StripPath": strip_path_problem, "Size": size_match_problem}.get(spec.name)
    if spec.name in ("Verify", "Accurate"):
        wrong = letters_problem(spec.name, text)
    else:
        wrong = problem(text) if problem else ""
    if wrong:
        raise UnfitValueError(wrong)
    known = OPTION_KEYWORDS.get(spec.name)
    if known is None:
        return text, int(text[:9]) if spec.name == "StripPath" else text
    lowered = text.lower()
    for word in known:
        if word.lower() == lowered:
            return text, {"yes": True, "no": False}.get(word, word.lower())
    own = OWN_KEYWORDS.get(spec.name, ())
    if lowered in {word.lower() for word in own}:
        if not words.dialect.has_own:
            raise UnfitValueError(
                f"{text} is a value of Strongroom's that {words.dialect.name} rejects", code="own"
            )
        return text, lowered
    choices = (*known, *own) if words.dialect.has_own else known
    if known == ("yes", "no") and lowered in ("true", "false") and words.dialect.is_bacula:
        return text, lowered == "true"
    shown = f"one of {', '.join(choices)}" if len(choices) > 2 else "yes or no"
    suggestion = {"true": "yes", "false": "no"}.get(lowered, "") if known == ("yes", "no") else ""
    raise UnfitValueError(
        f"{spec.shown_name} takes {shown}, not {text!r}",
        suggestion=suggestion or words.suggest(text, choices),
    )


def _file_name(spec: DirectiveSpec, words: Words) -> tuple[str, str]:
    text = words.groups[0][0]
    if words.kinds[0][0] != "q" and "\\" in text:
        raise UnfitValueError(
            "a backslash in a path needs quotes, or write a slash",
            suggestion=text.replace("\\", "/"),
        )
    return text, text


def _regex(spec: DirectiveSpec, words: Words) -> tuple[str, str]:
    text = words.groups[0][0]
    problem = regex_problem(text)
    if problem:
        raise UnfitValueError(problem)
    return text, text


def _label_format(spec: DirectiveSpec, words: Words) -> tuple[str, str]:
    text = words.groups[0][0]
    if spec.code and ("$" in text or "[" in text) and not words.dialect.is_bacula:
        words.report(WARNING, "deprecated", "variables ($ and [) in Label Format are deprecated")
    return text, text


def _messages(spec: DirectiveSpec, words: Words) -> tuple[list[list[str]], Destination]:
    addresses, types = ([], words.groups[0]) if len(words.groups) == 1 else words.groups
    first = 0 if len(words.groups) == 1 else len(addresses)
    for part, word in enumerate(types):
        if not is_message_type(word):
            known = ("all", "skipped", "saved", "notsaved", "warning", "error", "audit", "mount")
            raise UnfitValueError(
                f"there is no message type {word!r}",
                first + part,
                words.suggest(word.removeprefix("!"), known),
            )
    return [addresses, types], Destination(spec.name, tuple(addresses), tuple(types))


def _notice_events(spec: DirectiveSpec, words: Words) -> tuple[list[str], tuple[str, ...]]:
    for part, word in enumerate(words.groups[0]):
        name = word.removeprefix("!")
        if name.lower() not in EVENT_WORDS:
            raise UnfitValueError(
                f"there is no event {name!r}; there are {', '.join(EVENT_WORDS)}",
                part,
                words.suggest(name, EVENT_WORDS),
            )
    return words.groups[0], tuple(word.lower() for word in words.groups[0])


def _port(spec: DirectiveSpec, words: Words) -> tuple[str, Any]:
    text = words.groups[0][0]
    if text.isascii() and text.isdecimal():
        if not 0 < int(text[:9]) < 65536:
            raise UnfitValueError(f"{text} is not a port; ports go from 1 to 65535")
        return text, int(text)
    return text, text


def _runs_on_client(spec: DirectiveSpec, words: Words) -> tuple[str, Any]:
    text = words.groups[0][0]
    return text, _BOOLS[text.lower()] if text.lower() in ("yes", "no", "true", "false") else text


def _runscript_bool(spec: DirectiveSpec, words: Words) -> tuple[str, bool]:
    text = words.groups[0][0]
    if text.lower() not in ("yes", "no", "true", "false"):
        raise UnfitValueError(f"{spec.shown_name} takes yes or no, not {text!r}")
    return text, text.lower() in ("yes", "true")


_CONVERTERS: dict[str, Callable[[DirectiveSpec, Words], tuple[Any, Any]]] = {
    "ACL": _acl,
    "ADDRESSES_PORT": _port,
    "ALIST_RES": _list,
    "ALIST_STR": _list,
    "AUDIT": _list,
    "AUTOPASSWORD": _password,
    "BIT": _bool,
    "BOOL": _bool,
    "FNAME": _file_name,
    "FOLDERS": _folders,
    "INT32": _integer,
    "KTLS": _ktls,
    "MAXBLOCKSIZE": _size,
    "MD5PASSWORD": _password,
    "MSGS": _messages,
    "NAME": _name,
    "NOTICE_EVENTS": _notice_events,
    "OPTION": _option,
    "PINT16": _integer,
    "PINT32": _integer,
    "PLUGINNAME": _file_name,
    "PLUGIN_NAMES": _plugin_names,
    "REGEX": _regex,
    "RUNSCRIPT_BOOL": _runscript_bool,
    "RUNSCRIPT_TARGET": _runs_on_client,
    "SIZE32": _size,
    "SIZE64": _size,
    "SPEED": _speed,
    "STRNAME": _label_format,
    "STR_VECTOR": _list,
    "TIME": _duration,
}
