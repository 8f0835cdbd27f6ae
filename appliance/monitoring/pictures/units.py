"""Values as text, by Grafana's names of units."""

from __future__ import annotations

_SPANS = (("y", 31536000), ("w", 604800), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_SECOND = {"Bps": "B/s", "reqps": " req/s", "cps": " c/s"}


def text_of(value: float, unit: str) -> str:
    """A value in a unit; unknown units are errors, for a dashboard must not have them."""
    if unit == "percentunit":
        return f"{_plain(100 * value)}%"
    if unit in ("s", "dtdurations"):
        return _span(value)
    if unit == "bytes":
        return _scaled(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))
    if unit == "Bps":
        return _scaled(value, 1000, ("B/s", "kB/s", "MB/s", "GB/s"))
    if unit in ("reqps", "cps"):
        return _plain(value) + _SECOND[unit]
    if unit == "short":
        return _scaled(value, 1000, ("", "K", "Mil", "Bil")).strip()
    raise ValueError(f"no unit {unit}")


def _span(seconds: float) -> str:
    if abs(seconds) < 60:
        return f"{_plain(seconds)} s"
    left, words = abs(seconds), []
    for name, length in _SPANS:
        if left >= length and len(words) < 2:
            words.append(f"{int(left // length)} {name}")
            left %= length
    return ("-" if seconds < 0 else "") + " ".join(words)


def _scaled(value: float, base: int, names: tuple[str, ...]) -> str:
    size = abs(value)
    place = 0
    while size >= base and place < len(names) - 1:
        size /= base
        place += 1
    return f"{_plain(size if value >= 0 else -size)} {names[place]}"


def _plain(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
