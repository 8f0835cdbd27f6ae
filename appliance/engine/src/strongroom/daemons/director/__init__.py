"""The director: knows all jobs, starts their runs, and keeps what became of them.

Its parts, from the top:

    daemon       the process: signals, certificate, API
    api          REST, events and metrics for callers; WebSockets of agents
    director     the parts put together: queries, commands, agents
    schedule     starts runs when they are due
    agents       what agents say, and what they are answered
    own_jobs     what the director does itself
    snapshots    the catalog compared with repositories
    runs         a run from its request to what follows its end
    repositories repositories as the director reaches them
    catalog      the database
"""
