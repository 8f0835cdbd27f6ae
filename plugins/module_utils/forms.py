# Copyright (c) Strongroom contributors
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What texts in an inventory must look like: the column C(form) of meta/variables.yml.

A form gives what is wrong with a text, as the end of a sentence that begins with the value, or nothing. Times and rates
are those that the engine takes; tests compare both.
"""

from __future__ import annotations

import ipaddress
import re

from ansible_collections.strongroom.backup.plugins.module_utils.run_directive import run

_TIME_UNITS = ("n", "seconds", "months", "minutes", "mins", "hours", "days", "weeks", "quarters", "years")
_SECONDS = dict(zip(_TIME_UNITS, (60, 1, 2592000, 60, 60, 3600, 86400, 604800, 7862400, 31536000), strict=True))
_SPEED_UNITS = ("k/s", "kb/s", "m/s", "mb/s")
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([a-z/]*)\s*", re.IGNORECASE | re.ASCII)
# What the engine takes as the name of a resource.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:-]{0,126})")
_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62}))*\.?"
)
CIPHER_SUITES = {
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
}
# Those that the kernel's TLS has.
KERNEL_CIPHER_SUITES = CIPHER_SUITES - {"TLS_AES_128_CCM_8_SHA256"}


def _parts(text):
    """Numbers with their units, in lower case; nothing where the text has anything else."""
    found, place = [], 0
    while place < len(text):
        match = _NUMBER.match(text, place)
        if match is None:
            return []
        found.append((float(match.group(1)), match.group(2).lower()))
        place = match.end()
    return found


def seconds(text):
    """Seconds of a duration, None where it is none. The first unit that begins with what is written counts."""
    parts = _parts(text) if len(text) <= 500 else []
    total = 0.0
    for number, unit in parts:
        name = next((name for name in _TIME_UNITS if name.startswith(unit)), None) if unit else "seconds"
        if name is None:
            return None
        total += number * _SECONDS[name]
    return total if parts and total < 2**63 else None


def duration(text):
    """A time such as 7 days."""
    return "" if seconds(text) is not None else "is not a time such as 7 days"


def rate(text):
    """Bytes a second."""
    parts = _parts(text) if len(text) <= 500 else []
    good = parts and all(not unit or any(name.startswith(unit) for name in _SPEED_UNITS) for _number, unit in parts)
    return "" if good else "is not a rate such as 20 mb/s"


def bytes_per_second(text):
    """Bytes per second of a rate, None where it is none."""
    if rate(text):
        return None
    factors = dict(zip(_SPEED_UNITS, (1024, 1000, 1024**2, 1000**2), strict=True))
    total = 0.0
    for number, unit in _parts(text):
        total += number * (factors[next(name for name in _SPEED_UNITS if name.startswith(unit))] if unit else 1)
    return int(total)


def unit_size(text):
    """A size in a unit of systemd."""
    percent = re.fullmatch(r"([0-9]+(?:\.[0-9]{1,2})?)%", text)
    if percent:
        return "" if 0 < float(percent.group(1)) <= 100 else "is not between 1% and 100%"
    good = re.fullmatch(r"[0-9]+(\.[0-9]+)?[KMGTPE]?", text) or text == "infinity"
    return "" if good else "is not a size such as 4G or 20%"


def unit_bytes(text):
    """Bytes of such a size; None for a share of the memory."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGTPE]?)", text)
    return float(match.group(1)) * 1024 ** " KMGTPE".index(match.group(2) or " ") if match else None


def clock(text):
    """Hours and minutes."""
    good = re.fullmatch(r"([01]?[0-9]|2[0-3]):[0-5][0-9]", text)
    return "" if good else 'is not a time of day such as "21:00", in quotes'


def name(text):
    """The name of a resource."""
    good = _NAME.fullmatch(text) and not text.endswith(" ")
    return "" if good else "is not a name: 1 to 127 letters, digits, blanks and . _ : -, the first a letter or digit"


def host(text):
    """A name of the inventory."""
    return "" if not re.search(r"[\s,]", text) else "is not the name of a host"


def text(given):
    """A text on one line."""
    return "has a line break or a control character" if re.search(r"[\x00-\x1f\x7f]", given) else ""


def absolute(given):
    """A path from the root."""
    return text(given) or ("" if given.startswith("/") else "is not an absolute path: it does not begin with /")


def absolute_or_list(given):
    """An entry of a FileSet: a path, or a list that a file or a command gives."""
    if given.startswith(("<", "\\<", "|", "\\|")):
        return text(given)
    return absolute(given)


def absolute_or_bucket(given):
    """Where a repository is: a folder, or a bucket of an object store."""
    if not given.startswith("s3:"):
        return absolute(given)
    problem = text(given)
    if problem or "@" in given:
        return problem or "has an access key, which others could see: strongroom_appliance_store_keys takes it"
    # s3:HOST/BUCKET/PREFIX, s3:URL/BUCKET/PREFIX and s3://BUCKET/PREFIX.
    path = re.sub(r"s3:(//|https?://[^/]*/|[^/]*/)", "", given, count=1).partition("?")[0]
    bucket = re.split("/", path, maxsplit=1)[0]
    good = re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]", bucket)
    return "" if good else "names no bucket: s3://BUCKET/PREFIX"


def device(given):
    """A disk or partition."""
    return absolute(given) or ("" if given.startswith("/dev/") else "is not below /dev")


def address(given):
    """A name or an address that others can reach."""
    bare = given[1:-1] if given.startswith("[") and given.endswith("]") else given
    try:
        parsed = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        if re.fullmatch(r"[0-9.]+|.*:.*", bare):
            return "is not an IP address"
        return "" if _HOST_NAME.fullmatch(bare) else "is not a host name or an IP address"
    if given != bare:
        return "has brackets: write the IPv6 address alone"
    if parsed.is_unspecified or parsed.is_multicast:
        return "is not an address of one host"
    if parsed.is_loopback:
        return "is an address that only the host itself can reach"
    if parsed.version == 6 and parsed.is_link_local:
        return "is a link-local address, which needs an interface on each host: use a global or a unique local address"
    return ""


def host_and_port(given):
    """Host and port; nothing where it is not of this form."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^:\[\]/\s]*)):([0-9]{1,5})", given)
    if match is None or not 1 <= int(match.group(3)) <= 65535:
        return None
    return (match.group(1) or match.group(2), int(match.group(3)))


def listen(given):
    """Address and port to listen on, or to look at."""
    found = host_and_port(given)
    if found is None:
        return "is not ADDRESS:PORT; an IPv6 address is in brackets"
    place = found[0]
    if place and re.fullmatch(r"[0-9.]+|.*:.*", place):
        try:
            ipaddress.ip_address(place)
        except ValueError:
            return "has a part before the port that is not an IP address"
    return ""


def director(given):
    """The director's address."""
    match = re.fullmatch(r"https://([^/\s]+)/?", given)
    if match is None:
        return "is not an address such as https://vault.example.org:9101"
    place = match.group(1)
    found = host_and_port(place if re.search(r":[0-9]+\Z", place) else place + ":9101")
    if found is None:
        return "is not https://HOST:PORT; an IPv6 address is in brackets"
    return address(found[0])


def repository(given):
    """An apt repository."""
    good = re.fullmatch(r"(https?://[^\s/]+|file:/)\S*", given)
    return text(given) or ("" if good else "is not the address of an apt repository: http://, https:// or file:/")


def network(given):
    """An address or a network."""
    try:
        ipaddress.ip_network(given, strict=False)
    except ValueError:
        return "is not an IP address or a network such as 192.0.2.0/24"
    return ""


def version(given):
    """The version of a package."""
    good = given == "latest" or re.fullmatch(r"[0-9][A-Za-z0-9.+~:-]*", given)
    return "" if good else "is not a version such as 0.9.0-1, nor latest"


def scheduler(given):
    """An I/O scheduler of the kernel."""
    known = ("none", "mq-deadline", "bfq", "kyber")
    return "" if given in ("", *known) else "is not a scheduler of the kernel: " + ", ".join(known)


def prometheus_interval(given):
    """An interval of Prometheus."""
    return "" if re.fullmatch(r"[0-9]+(ms|s|m|h)", given) else "is not a time such as 30s"


def prometheus_retention(given):
    """How long Prometheus keeps records."""
    return "" if re.fullmatch(r"([0-9]+(y|w|d|h))+", given) else "is not a time such as 400d"


def prometheus_size(given):
    """How much Prometheus keeps."""
    return "" if re.fullmatch(r"[0-9]+(B|KB|MB|GB|TB|PB|EB)", given) else "is not a size such as 20GB"


def tls_cipher_suites(given):
    """Suites of TLS 1.3."""
    wrong = [one for one in given.split(":") if one not in CIPHER_SUITES]
    if not wrong:
        return ""
    which = (
        "is not a cipher suite" if wrong == [given] else "has %s, not a cipher suite" % (wrong[0] or "an empty name")
    )
    return "%s of TLS 1.3: %s" % (which, ", ".join(sorted(CIPHER_SUITES)))


def sysctl(given):
    """The name of a kernel setting."""
    good = re.fullmatch(r"[a-z0-9_-]+([./][A-Za-z0-9_*-]+)+", given)
    return "" if good else "is not the name of a kernel setting such as net.core.rmem_max"


FORMS = {
    form.__name__: form
    for form in (
        absolute,
        absolute_or_bucket,
        absolute_or_list,
        address,
        clock,
        device,
        director,
        duration,
        host,
        listen,
        name,
        network,
        prometheus_interval,
        prometheus_retention,
        prometheus_size,
        rate,
        repository,
        run,
        scheduler,
        sysctl,
        text,
        tls_cipher_suites,
        unit_size,
        version,
    )
}
