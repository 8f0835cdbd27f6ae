"""What a well-formed configuration says that its daemon could not carry out.

    judgement       the entry: judges a whole component
    findings        how a finding gets its severity and its place
    jobs, copy_jobs, admin_jobs, companions, run_scripts
                    jobs of all kinds, and what is started along with them
    schedules       when jobs are started, and with which level
    resources       everything else that a director is told
    storage_daemon, agent
                    the other daemons

An error is what can never run, of a job that is enabled; of a disabled one it is a warning, as is
what runs otherwise than it is written. What depends on the state of a machine (files, folders, a
certificate) is for `--check` of the daemons.
"""
