"""The one table of knobs: settings of users, their names and bounds.

`knob` defines a knob, `table` lists them, `settings` carries values of them between processes and
checks them, `document` renders them for people and for Ansible roles.
"""
