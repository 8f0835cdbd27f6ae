"""The other formats of the image: each is the same disk, and whole; the OVA keeps the rules of OVF (DMTF DSP0243).

Those that the results lack are made for the tests.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from xml.etree import ElementTree

import pytest
from conftest import PROJECT
from machine import QEMU_IMG

sys.path.insert(0, str(PROJECT / "packer"))
os.environ["PATH"] = f"{PROJECT}/packer/bin:{os.environ['PATH']}"

from results import CONVERSIONS, convert, write_ova

OVF = "{http://schemas.dmtf.org/ovf/envelope/1}"
RASD = "{http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData}"
VSSD = "{http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData}"
PROCESSOR, MEMORY, SCSI, NETWORK, DISK = "3", "4", "6", "10", "17"


@pytest.fixture(scope="session")
def capacity(image):
    """The bytes of the disk."""
    told = subprocess.check_output([QEMU_IMG, "info", image], text=True)
    return int(re.search(r"virtual size: .*\((\d+) bytes\)", told)[1])


@pytest.fixture(scope="session")
def in_format(image, tmp_path_factory):
    """The image in a format: that of the results, or one that is made of it."""
    made = {}

    def find(name):
        there = image.with_suffix(f".{name}")
        if there.exists():
            return there
        if name not in made:
            made[name] = tmp_path_factory.mktemp("format") / there.name
            convert(image, made[name], name)
        return made[name]

    return find


@pytest.fixture(scope="session")
def ova(image, in_format, capacity, tmp_path_factory):
    there = image.with_suffix(".ova")
    if not there.exists():
        there = tmp_path_factory.mktemp("ova") / there.name
        write_ova(in_format("vmdk"), there, image.stem, capacity)
    return there


@pytest.fixture(scope="session")
def parts(ova, tmp_path_factory):
    """What is in the OVA, in its order."""
    folder = tmp_path_factory.mktemp("parts")
    with tarfile.open(ova) as archive:
        names = archive.getnames()
    subprocess.run(["tar", "-xf", ova, "-C", folder], check=True)
    return [folder / name for name in names]


@pytest.fixture(scope="session")
def envelope(parts):
    return ElementTree.parse(parts[0]).getroot()


def compared(one, other):
    words = [QEMU_IMG, "compare", "-p", one, other]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()[-1:]


@pytest.mark.parametrize("name", [name for name in CONVERSIONS if name != "qcow2"])
def test_it_is_the_same_disk_byte_for_byte(image, in_format, name):
    assert compared(image, in_format(name))[0] == 0


@pytest.mark.parametrize("name", [name for name in CONVERSIONS if name != "raw"])
def test_it_is_whole(in_format, name):
    done = subprocess.run([QEMU_IMG, "check", in_format(name)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No errors" in done.stdout


def test_the_vmdk_is_of_the_kind_that_an_ova_needs(in_format):
    told = subprocess.check_output([QEMU_IMG, "info", in_format("vmdk")], text=True)
    assert "create type: streamOptimized" in told


def test_the_ova_has_description_sums_and_disk_in_this_order(parts):
    assert [path.suffix for path in parts] == [".ovf", ".mf", ".vmdk"]
    assert len({path.stem for path in parts}) == 1


def test_the_sums_in_the_ova_are_those_of_its_parts(parts):
    lines = parts[1].read_text().splitlines()
    told = dict(re.fullmatch(r"SHA256\((.+)\)= ([0-9a-f]{64})", line).groups() for line in lines)
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (parts[0], parts[2])}
    assert told == found


def test_the_disk_in_the_ova_is_the_image(image, parts):
    assert compared(image, parts[2])[0] == 0


def test_the_description_names_the_disk_as_it_is(envelope, parts, capacity):
    assert envelope.tag == f"{OVF}Envelope"
    (file,) = envelope.findall(f"{OVF}References/{OVF}File")
    (disk,) = envelope.findall(f"{OVF}DiskSection/{OVF}Disk")
    assert file.get(f"{OVF}href") == parts[2].name
    assert int(file.get(f"{OVF}size")) == parts[2].stat().st_size
    assert disk.get(f"{OVF}fileRef") == file.get(f"{OVF}id")
    assert int(disk.get(f"{OVF}capacity")) == capacity
    assert disk.get(f"{OVF}format").endswith("#streamOptimized")


def test_the_sections_of_the_description_are_in_the_order_of_the_schema(envelope):
    names = [part.tag.removeprefix(OVF) for part in envelope]
    assert names == ["References", "DiskSection", "NetworkSection", "VirtualSystem"]
    system = envelope.find(f"{OVF}VirtualSystem")
    assert [part.tag.removeprefix(OVF) for part in system] == [
        *("Info", "Name", "OperatingSystemSection", "VirtualHardwareSection"),
    ]
    # Every section says in words what it is.
    for part in (*list(envelope)[1:], *list(system)[2:]):
        assert part[0].tag == f"{OVF}Info"


def test_the_hardware_fits_together(envelope):
    hardware = envelope.find(f"{OVF}VirtualSystem/{OVF}VirtualHardwareSection")
    assert hardware.find(f"{OVF}System/{VSSD}VirtualSystemType").text == "vmx-14"
    items = {}
    for item in hardware.findall(f"{OVF}Item"):
        names = [field.tag for field in item]
        # The schema has them in the order of the alphabet, each once.
        assert names == sorted(set(names))
        assert all(name.startswith(RASD) for name in names)
        fields = {field.tag.removeprefix(RASD): field.text for field in item}
        assert {"ElementName", "InstanceID", "ResourceType"} <= set(fields)
        items[fields["ResourceType"]] = fields
    assert set(items) == {PROCESSOR, MEMORY, SCSI, NETWORK, DISK}
    assert len({one["InstanceID"] for one in items.values()}) == len(items)
    assert items[DISK]["Parent"] == items[SCSI]["InstanceID"]
    disk = envelope.find(f"{OVF}DiskSection/{OVF}Disk").get(f"{OVF}diskId")
    assert items[DISK]["HostResource"] == f"ovf:/disk/{disk}"
    networks = [one.get(f"{OVF}name") for one in envelope.findall(f"{OVF}NetworkSection/{OVF}Network")]
    assert items[NETWORK]["Connection"] in networks
    assert items[MEMORY]["AllocationUnits"] == "byte * 2^20"
    assert (int(items[PROCESSOR]["VirtualQuantity"]), int(items[MEMORY]["VirtualQuantity"])) == (2, 2048)
