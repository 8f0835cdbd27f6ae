"""The one table of knobs: what users may turn, under which names, and within which bounds.

`knob` says what a knob is, `table` lists them, `settings` carries values of them between processes
and checks them, `document` renders them for people and for Ansible roles.
"""
