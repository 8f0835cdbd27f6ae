"""The director: knows all jobs, starts their runs, and records their results.

Its parts, from the top:

    daemon       the process: signals, certificate, API
    api          REST, events and metrics for callers; WebSockets of agents
    director     combines the parts: queries, commands, agents
    schedule     starts runs when they are due
    agents       processes messages from agents, and answers them
    own_jobs     jobs that the director runs itself
    snapshots    reconciles the catalog with repositories
    runs         a run from its request to its aftermath
    repositories the director's access to repositories
    catalog      the database
"""
