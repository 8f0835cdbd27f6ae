"""Where `tune` measures, and the benchmark: repositories, daemons and their own links.

`command` measures one command, `local` has a repository in a folder, `vault` a storage daemon with
its certificates, `link` is a relay that is as slow as a network. All of it lies in one folder that
the caller removes.
"""
