"""Reconciles the snapshots in the catalog with those in the repositories.

Its modules:

    confirmation     a snapshot that an agent reports
    reconciliation   all snapshots of a repository, periodically
    entering         those that the catalog does not have, with their runs
    verdicts         which of them are false
    shortfalls       which hold far less than those before
"""
