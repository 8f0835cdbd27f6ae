"""Strongroom: a fast backup engine."""

__version__ = "0.9.0"
