"""Runs, from their request to their aftermath.

Its modules:

    requests                 turns a request into a run
    lifecycle                queued, waiting, running, ended: the only place that changes it
    active_run               a run that has not ended, how long it may take, who watches it
    dispatch                 which runs may start, and which are superfluous
    start_messages, tickets  the messages that start runs on agents, levels; those of runs that read
    agents, run_ends         what agents report, and its answer; within `agent_limits`
    rivals                   two agents with one identity
    aftermath                scripts, another attempt, retention and report

One run has these shapes: `results.runs.Run`, with what was asked for as `requests.RunRequest`, from
its plan to the history and for those who ask; while it is active an `ActiveRun`, which the limits
see as a `Contender`; the start message to its agent; the reports of the agent or of a job process
(`net.control.messages`: RunStarted, RunProgress, RunLog, RunEnded); and an `Ending`, however it
comes about.
"""
