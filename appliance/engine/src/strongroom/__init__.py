"""Strongroom: a fast backup engine."""

__version__ = "0.1.0"
