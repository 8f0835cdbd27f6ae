"""Own jobs: those that the director runs itself, without an agent.

Its modules:

    own_jobs        from a run to its outcome: verify, copy and admin jobs
    copies          which snapshots a copy job copies, and their entry in the catalog
    catalog_backup  the catalog and the configuration as a snapshot
    processes       runs a job process of the director, and waits for its end
    descriptions    the description of a job process
    job             the program of the process: `python -m strongroom.daemons.director.own_jobs.job`
"""
