"""What texts in an inventory must look like, compared with what the engine takes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.strongroom.backup.plugins.module_utils import forms

# Reads texts as JSON; writes for each the seconds and the bytes per second that the engine reads, or null.
ENGINE = """
import json, sys
from strongroom.config.values.measures import duration_seconds, speed_bytes_per_second
print(json.dumps([[duration_seconds(text), speed_bytes_per_second(text)] for text in json.load(sys.stdin)]))
"""

MEASURES = (
    "7 days",
    "1 month 2 days 30 sec",
    "90",
    "1 h",
    "0.5 weeks",
    "7 tage",
    "days",
    "",
    " ",
    "7 days x",
    "-1 day",
    "1 quarter",
    "1e3",
    "5 mi",
    "5 m",
    "5 n",
    "5 secs",
    "10 mb/s",
    "10 k",
    "10 kb/s",
    "12mb/s",
    "12 mbit/s",
    "1 g/s",
    "fast",
    "10 mb/s 5",
    "1.5 m/s",
    "9" * 30 + " years",
    "1" * 501,
)


@pytest.fixture(scope="module")
def engine():
    """What the engine reads each text of MEASURES as."""
    python = Path(shutil.which("strongroom")).with_name("python")
    done = subprocess.run(
        [python, "-c", ENGINE], input=json.dumps(MEASURES), capture_output=True, text=True, check=True
    )
    return dict(zip(MEASURES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("text", MEASURES)
def test_times_and_rates_are_those_of_the_engine(engine, text):
    seconds, speed = engine[text]
    assert (forms.duration(text) == "") == (seconds is not None)
    assert (forms.rate(text) == "") == (speed is not None)
    if seconds is not None:
        assert int(forms.seconds(text)) == seconds
    assert forms.bytes_per_second(text) == speed


GOOD = {
    "address": ["vault", "vault.example.org", "192.0.2.10", "2001:db8::10", "fd00::1"],
    "absolute": ["/", "/srv/with blank"],
    "absolute_or_list": ["/etc", "</etc/list", "|list-files"],
    "clock": ["21:00", "7:30", "0:00"],
    "device": ["/dev/sda", "/dev/disk/by-id/wwn-0x5"],
    "director": ["https://vault:9101", "https://vault", "https://[2001:db8::10]:9101", "https://192.0.2.1:9101/"],
    "listen": ["127.0.0.1:9090", "[::]:9100", "vault:9101", "0.0.0.0:3000"],
    "name": ["web1", "files-lisbon", "Hourly on workdays", "a.b_c:d"],
    "network": ["192.0.2.0/24", "192.0.2.7", "2001:db8::/32", "192.0.2.7/24"],
    "repository": ["http://vault:9105/apt", "https://x.example/apt", "file:/var/apt"],
    "scheduler": ["", "none", "mq-deadline", "bfq"],
    "sysctl": ["net.core.rmem_max", "net.ipv4.conf.all.rp_filter", "vm.swappiness"],
    "tls_cipher_suites": ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"],
    "unit_size": ["400M", "1G", "1.5G", "20%", "1073741824", "infinity"],
    "version": ["0.9.0-1", "latest", "0.9.0~rc1-1~deb13"],
}
BAD = {
    "address": [
        "",
        "127.0.0.1",
        "::1",
        "0.0.0.0",
        "fe80::1%eth0",
        "fe80::1",
        "[2001:db8::1]",
        "300.1.1.1",
        "a b",
        "224.0.0.1",
    ],
    "absolute": ["", "srv", "~/x", "/a\nb"],
    "absolute_or_list": ["etc", ""],
    "clock": ["24:00", "75600", "21", "21:60"],
    "device": ["sda", "/srv"],
    "director": [
        "vault:9101",
        "http://vault:9101",
        "https://2001:db8::10:9101",
        "https://127.0.0.1:9101",
        "https://",
        "https://a:99999",
    ],
    "listen": ["9090", "127.0.0.1", "::1:9090", "127.0.0.1:0", "127.0.0.1:65536", "300.0.0.1:80"],
    "name": ["", " web1", "web1 ", "a/b", "ä", "x" * 128, "a\nb"],
    "network": ["", "192.0.2.0/33", "lan"],
    "repository": ["vault/apt", "ftp://x/apt", "http:///x"],
    "scheduler": ["deadline", "cfq"],
    "sysctl": ["rmem_max", "net core", "Net.core"],
    "tls_cipher_suites": ["AES128", "TLS_AES_256_GCM_SHA384:", "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256"],
    "unit_size": ["4 gigs", "4GB", "0%", "120%", "-1", "1g"],
    "version": ["newest", "v1", "1 2"],
}


@pytest.mark.parametrize(("form", "text"), [(form, text) for form, texts in GOOD.items() for text in texts])
def test_a_good_text_passes(form, text):
    assert forms.FORMS[form](text) == ""


@pytest.mark.parametrize(("form", "text"), [(form, text) for form, texts in BAD.items() for text in texts])
def test_a_bad_text_does_not(form, text):
    assert forms.FORMS[form](text)
