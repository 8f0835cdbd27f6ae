"""The description (OVF) that is put into an OVA beside the disk."""

from __future__ import annotations

from xml.sax.saxutils import escape

CPUS = 2
MEMORY_MIB = 2048


def item(number: int, kind: int, name: str, **more: str) -> str:
    """A piece of virtual hardware; its elements are in the order of the alphabet, as the schema wants."""
    fields = {"ElementName": name, "InstanceID": str(number), "ResourceType": str(kind), **more}
    text = "".join(f"<rasd:{field}>{escape(value)}</rasd:{field}>" for field, value in sorted(fields.items()))
    return f"      <Item>{text}</Item>"


def description(name: str, disk: str, disk_bytes: int, capacity: int) -> str:
    """The OVF of a machine with this disk."""
    hardware = "\n".join(
        [
            item(1, 3, f"{CPUS} processors", VirtualQuantity=str(CPUS)),
            item(2, 4, f"{MEMORY_MIB} MiB", AllocationUnits="byte * 2^20", VirtualQuantity=str(MEMORY_MIB)),
            item(3, 6, "SCSI controller", ResourceSubType="VirtualSCSI"),
            item(4, 17, "Disk", AddressOnParent="0", HostResource="ovf:/disk/disk1", Parent="3"),
            item(5, 10, "Network card", AutomaticAllocation="true", Connection="VM Network", ResourceSubType="VmxNet3"),
        ]
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
  xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData">
  <References><File ovf:href="{escape(disk)}" ovf:id="file1" ovf:size="{disk_bytes}"/></References>
  <DiskSection>
    <Info>The disk</Info>
    <Disk ovf:capacity="{capacity}" ovf:diskId="disk1" ovf:fileRef="file1"
      ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/>
  </DiskSection>
  <NetworkSection>
    <Info>The network</Info>
    <Network ovf:name="VM Network"><Description>The network</Description></Network>
  </NetworkSection>
  <VirtualSystem ovf:id="{escape(name)}">
    <Info>A virtual machine</Info>
    <Name>{escape(name)}</Name>
    <OperatingSystemSection ovf:id="96"><Info>Debian 13, amd64</Info></OperatingSystemSection>
    <VirtualHardwareSection>
      <Info>The hardware</Info>
      <System><vssd:ElementName>Hardware</vssd:ElementName><vssd:InstanceID>0</vssd:InstanceID>
        <vssd:VirtualSystemType>vmx-14</vssd:VirtualSystemType></System>
{hardware}
    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>
"""
