"""Which snapshots the catalog has, compared with what is in the repositories.

Its modules:

    confirmation     a snapshot that an agent says it made
    reconciliation   all snapshots of a repository, now and then
"""
