"""The director: knows all jobs, starts their runs, and records their results.

Its parts, from the top:

    daemon        the process: signals, certificate, API
    web           the pages for browsers
    http          REST, events and metrics for callers; WebSockets of agents
    director      combines the parts; queries, commands, metrics and the audit log are its interface
    notices       tells people what is wrong, and of the ends of runs
    own_jobs      jobs that the director runs itself
    schedule      starts runs when they are due
    runs          a run from its request to its aftermath, and what agents report of it
    snapshots     reconciles the catalog with repositories
    catalog       the database; `repositories`: the director's access to repositories
    context       what all of them share
"""
