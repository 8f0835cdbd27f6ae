"""What stands in the way of a measurement."""

from __future__ import annotations


class ContenderError(Exception):
    """A contender could not be fetched; the message says what to install."""
