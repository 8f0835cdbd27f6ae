"""Disks: what there is, what is on them, and how one is made ready for data."""
