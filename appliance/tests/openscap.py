"""OpenSCAP on an appliance that runs: scanner and rules come from the tools' root, and are gone afterwards.

The rules are those of ANSSI-BP-028, level intermediary, in ssg-debian. Debian 13 has them for Debian 12 only; what
keeps them from being applied to another release is taken out.
"""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import tarfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from machine import PROJECT

if TYPE_CHECKING:
    from life import Life

RULES = "usr/share/xml/scap/ssg/content/ssg-debian12-ds.xml"
PLATFORM = b'<xccdf-1.2:platform idref="cpe:/o:debian:debian_linux:12"/>'
PREFIX = "xccdf_org.ssgproject.content_rule_"
PROFILE = "xccdf_org.ssgproject.content_profile_anssi_bp28_intermediary"
NAMES = {"x": "http://checklists.nist.gov/xccdf/1.2"}
WAIVERS = Path(__file__).parent / "openscap.txt"
PLACE = "/run/openscap"
RUN = f"""
cd {PLACE}
export LD_LIBRARY_PATH={PLACE}/libraries OSCAP_SCHEMA_PATH={PLACE}/usr/share/openscap/schemas
export OSCAP_XSLT_PATH={PLACE}/usr/share/openscap/xsl OSCAP_CPE_PATH={PLACE}/usr/share/openscap/cpe
usr/bin/oscap xccdf eval --skip-validation --profile {PROFILE} --results results.xml rules.xml > said 2>&1 || code=$?
[ "${{code:-0}}" != 1 ] || {{ tail -n 20 said >&2; exit 1; }}
gzip -c results.xml
"""


@dataclass(frozen=True)
class Audit:
    """What the scanner found: its score, and what became of each rule."""

    score: float
    results: dict[str, str]

    def with_result(self, *wanted: str) -> set[str]:
        """The rules that ended so."""
        return {rule for rule, result in self.results.items() if result in wanted}


def waivers() -> dict[str, str]:
    """The rules that need not hold, each with its reason."""
    found: dict[str, str] = {}
    reason = ""
    for line in WAIVERS.read_text().splitlines():
        if line.startswith("# "):
            continue
        if line and not line.startswith(" "):
            reason = line
        for rule in line.split() if line.startswith(" ") else ():
            found[rule] = reason
    return found


def scanner() -> bytes:
    """The scanner with its libraries and rules, as a tar file."""
    root = Path(subprocess.check_output([PROJECT / "packer/tools.sh"], text=True).strip())
    words = [PROJECT / "packer/in_tools.sh", "ldd", "/usr/bin/oscap"]
    libraries = re.findall(r"=> (/\S+)", subprocess.check_output(words, text=True))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", dereference=True) as archive:
        archive.add(root / "usr/bin/oscap", "usr/bin/oscap")
        archive.add(root / "usr/share/openscap", "usr/share/openscap")
        for library in libraries:
            if not re.search(r"/(libc|libm|ld-[^/]*)\.so", library):
                archive.add(root / library.lstrip("/"), f"libraries/{Path(library).name}")
        rules = (root / RULES).read_bytes()
        assert rules.count(PLATFORM) == 1
        rules = rules.replace(PLATFORM, b"")
        member = tarfile.TarInfo("rules.xml")
        member.size = len(rules)
        archive.addfile(member, io.BytesIO(rules))
    return gzip.compress(made.getvalue(), 1)


def audit(life: Life) -> Audit:
    """Run the scanner."""
    # In memory, and where programs may be started.
    prepare = f"mkdir {PLACE} && mount -t tmpfs -o mode=0700 tmpfs {PLACE} && tar -C {PLACE} -xzf -"
    subprocess.run([*life.machine.ssh_words(life.key), prepare], input=scanner(), check=True)
    try:
        done = subprocess.run([*life.machine.ssh_words(life.key), RUN], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
    finally:
        life.does(f"umount {PLACE} && rmdir {PLACE}")
    found = ElementTree.fromstring(gzip.decompress(done.stdout)).find(".//x:TestResult", NAMES)
    assert found is not None
    results = {
        one.attrib["idref"].removeprefix(PREFIX): one.findtext("x:result", "", NAMES)
        for one in found.iterfind("x:rule-result", NAMES)
    }
    score = found.findtext("x:score[@system='urn:xccdf:scoring:default']", "0", NAMES)
    return Audit(float(score), {rule: result for rule, result in results.items() if result != "notselected"})
