"""What was measured of a machine, as sentences that terminal and page share."""

from __future__ import annotations

from typing import Final

from strongroom.cli.measure.profile import (
    AttributeKind,
    Iperf3Profile,
    Machine,
    NetworkProfile,
    Tree,
)

# Processor flags, of x86 and of ARM.
_OF_AES: Final = ("aes", "vaes")
_OF_SHA: Final = ("sha_ni", "sha2")


def acceleration_sentence(machine: Machine) -> str:
    """Whether the processor has instructions for AES and SHA, and what else speeds up content."""
    parts = []
    for name, flags in (("AES", _OF_AES), ("SHA", _OF_SHA)):
        found = [flag for flag in machine.accelerations if flag in flags]
        parts.append(
            f"{name}: accelerated ({', '.join(found)})" if found else f"{name}: not accelerated"
        )
    others = [flag for flag in machine.accelerations if flag not in _OF_AES + _OF_SHA]
    if others:
        parts.append(f"also {', '.join(others)}")
    return "; ".join(parts)


def attributes_sentence(tree: Tree) -> str:
    """What listing and reading extended attributes and ACLs costs."""
    found = tree.attributes
    if found is None:
        return f"attributes and ACLs {tree.attributes_us:.1f} µs an entry"
    if not found.is_supported:
        return "the file system has no ACLs and no other extended attributes"
    return (
        f"listing attributes {found.list_us:.1f} µs an entry; "
        f"{_kind(found.acls, found.sampled, 'ACLs')}; "
        f"{_kind(found.others, found.sampled, 'other attributes')}"
    )


def _kind(kind: AttributeKind, sampled: int, name: str) -> str:
    if not kind.entries:
        return f"none of {sampled:,} entries has {name}"
    return f"{kind.entries:,} of {sampled:,} have {name}, reading one {kind.read_us:.1f} µs"


def network_sentence(network: NetworkProfile) -> str:
    """How the daemon is reached, and what was sent again on the way to it."""
    if not network.congestion_control:
        return f"{network.mode}, round trip {network.rtt_us / 1000:.2f} ms, no TCP"
    share = network.retransmitted / network.sent_segments if network.sent_segments else 0.0
    return (
        f"{network.mode}, round trip {network.rtt_us / 1000:.2f} ms "
        f"(± {network.rtt_variation_us / 1000:.2f}), MTU {network.path_mtu_bytes}, "
        f"{network.congestion_control}; {network.retransmitted:,} of {network.sent_segments:,} "
        f"segments from this machine were sent again ({share:.3%})"
    )


def iperf3_sentence(iperf3: Iperf3Profile) -> str:
    """What iperf3 measured beside the rates."""
    sent_again = (
        "how many segments were sent again is not known"
        if iperf3.retransmitted is None
        else f"{iperf3.retransmitted:,} segments were sent again, in both directions together"
    )
    return f"iperf3, without TLS; {sent_again}"
