"""Runs, from their request to their aftermath.

Its modules:

    requests, plan, levels   turn a request into a run
    lifecycle                queued, waiting, running, ended: the only place that changes it
    dispatch, duplicates     which runs may start, and which are refused
    start_messages           the messages that start runs on agents
    time_limits              which runs take too long
    aftermath                scripts, another attempt, retention and report
    protocols                interfaces between lifecycle, own jobs and aftermath
"""
