"""What is in the way of a measurement."""

from __future__ import annotations


class ContenderError(Exception):
    """A contender could not be fetched; the message says what to install."""


class OtherConditionsError(Exception):
    """Steps cannot be beside those measured before; the message says what to measure."""
