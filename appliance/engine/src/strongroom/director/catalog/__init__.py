"""The catalog: the director's persistent state. All access to its database goes through here.

    tables          the schema
    database        opening it (SQLite in WAL mode, or PostgreSQL), transactions, migrations
    runs            runs and their logs
    snapshots       what was backed up, what was removed
    clients         agents and when they were seen
    access          tokens, audit log
    state           schedules' last due times and other single facts
    portable        export and import as lines of JSON

Every function blocks: call it in a thread. Snapshots are in the repositories too, from which
`director.snapshots.reconciliation` reads them back; the configuration is in its files.
"""
