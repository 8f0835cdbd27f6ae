"""Runs, from their request to what follows their end.

Its modules:

    requests, plan, levels   what is asked for becomes a run
    lifecycle                queued, waiting, running, ended: the only place that changes it
    dispatch, duplicates     which runs may start, and which may be at all
    start_messages           what an agent is told
    time_limits              which runs take too long
    aftermath                scripts, another attempt, retention and report
    protocols                what lifecycle, own jobs and aftermath are to each other
"""
