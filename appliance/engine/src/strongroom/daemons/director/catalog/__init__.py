"""The catalog: what the director remembers. The only door to its database.

    tables          what there is, in one place
    database        opening it (SQLite in WAL mode, or PostgreSQL), transactions, migrations
    runs            runs and their logs
    snapshots       what was backed up, what was forgotten
    clients         agents and when they were seen
    access          tokens, audit log
    state           schedules' last due times and other single facts
    portable        all of it as lines of JSON, and back

Every function blocks: call it in a thread. What is not in the catalog alone: snapshots (the
repository holds them, `director.snapshots.reconciliation` reads them back) and configuration.
"""
