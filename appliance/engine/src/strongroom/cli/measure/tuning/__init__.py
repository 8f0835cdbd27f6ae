"""Searches the values of the knobs that are best on this machine and data.

`search` decides what to measure next and knows nothing else; `axes` makes its axes from the table
of knobs, `sample` chooses what is backed up, `runs` measures a condition, `journal` remembers every
run, and `inventory` writes what was found for Ansible.
"""
