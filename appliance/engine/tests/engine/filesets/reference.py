"""What a FileSet keeps, worked out slowly: one entry at a time, character by character.

Written from the description of Bareos's FileSets, and shares no code with the engine.
"""

from __future__ import annotations

import os
import re
import stat

from strongroom.engine.filesets.spec import FileSetInclude, FileSetOptions, FileSetSpec


def fits_glob(pattern: str, text: str, *, whole_path: bool, ignores_case: bool) -> bool:
    """fnmatch(3); `whole_path`: nothing but a slash matches a slash."""
    if ignores_case:
        pattern, text = pattern.lower(), text.lower()

    def fits(p: int, t: int) -> bool:
        if p == len(pattern):
            return t == len(text)
        letter = pattern[p]
        if letter == "*":
            end = t
            while True:
                if fits(p + 1, end):
                    return True
                if end == len(text) or (whole_path and text[end] == "/"):
                    return False
                end += 1
        if t == len(text):
            return False
        if letter == "?":
            return not (whole_path and text[t] == "/") and fits(p + 1, t + 1)
        if letter == "[":
            close = pattern.find("]", p + 2)
            if close > 0:
                members = pattern[p + 1 : close]
                negated = members[0] in "!^"
                found = text[t] in members[negated:]
                allowed = not (whole_path and text[t] == "/")
                return allowed and found != negated and fits(close + 1, t + 1)
        if letter == "\\" and p + 1 < len(pattern):
            return pattern[p + 1] == text[t] and fits(p + 2, t + 1)
        return letter == text[t] and fits(p + 1, t + 1)

    return fits(0, 0)


def fits_block(options: FileSetOptions, path: str, *, is_directory: bool) -> bool:
    """Whether any pattern of an Options block fits."""
    enhanced, folds = options.enhanced_wild, options.ignore_case
    wild = list(options.wild)
    regex = list(options.regex)
    if is_directory:
        wild += options.wild_dir
        regex += options.regex_dir
    else:
        regex += options.regex_file
        for pattern in options.wild_file:
            if enhanced and "/" not in pattern:
                name = path.rpartition("/")[2]
                if fits_glob(pattern, name, whole_path=True, ignores_case=folds):
                    return True
            else:
                wild.append(pattern)
    return any(
        fits_glob(pattern, path, whole_path=enhanced, ignores_case=folds) for pattern in wild
    ) or any(re.search(pattern, path, re.IGNORECASE if folds else 0) for pattern in regex)


def decides(spec: FileSetSpec, include: FileSetInclude, path: str, *, is_directory: bool) -> object:
    """The Options block that decides about an entry; None when it is left out."""
    plain = None
    for options in include.options:
        if not options.has_patterns:
            if options.exclude:
                return None
            plain = options
        elif fits_block(options, path, is_directory=is_directory):
            return None if options.exclude else options
    for pattern in spec.excludes:
        if fits_glob(pattern, path, whole_path=False, ignores_case=False):
            return None
    return plain or (include.options[-1] if include.options else "usual")


def kept(spec: FileSetSpec) -> set[str]:
    """Every path that is kept, below the paths that are named and these themselves."""
    found: set[str] = set()
    for include in spec.includes:
        for name in include.files:
            found.add(name)
            if os.path.isdir(name):
                found |= _below(spec, include, name)
    return found


def _below(spec: FileSetSpec, include: FileSetInclude, directory: str) -> set[str]:
    found: set[str] = set()
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        status = os.lstat(path)
        is_directory = stat.S_ISDIR(status.st_mode)
        options = decides(spec, include, path, is_directory=is_directory)
        if options is None:
            continue
        least = getattr(options, "smallest_bytes", None)
        most = getattr(options, "largest_bytes", None)
        if stat.S_ISREG(status.st_mode) and (
            (least is not None and status.st_size < least)
            or (most is not None and status.st_size > most)
        ):
            continue
        if is_directory and any(
            os.path.exists(f"{path}/{marker}") for marker in include.exclude_dir_containing
        ):
            continue
        found.add(path)
        if is_directory and getattr(options, "recurse", True):
            found |= _below(spec, include, path)
    return found
