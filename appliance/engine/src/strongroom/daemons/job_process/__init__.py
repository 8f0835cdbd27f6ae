"""Runs a job in a process of its own; the agent does so with its jobs, the director with its own.

Its modules:

    messages   what the two sides say: JSON objects, one a line
    process    the side that starts the job process, listens to it, stops and kills it
    program    the life of a job process, from its description to its last report
    input      what a job process is told while it works
    output     what it reports
"""
