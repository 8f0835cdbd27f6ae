"""Reconciles the snapshots in the catalog with those in the repositories.

Its modules:

    confirmation     a snapshot that an agent reports
    reconciliation   all snapshots of a repository, periodically
"""
