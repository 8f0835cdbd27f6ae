"""Own jobs: those that the director runs itself, without an agent.

Its modules:

    own_jobs        from a run to its end: verify, copy and admin jobs, and their processes
    catalog_copies  copies of the catalog, and the way back from a damaged or lost one
    descriptions    the description of a job process
    job             the program of the process, `python -m` this module
"""
