"""`make bench SUITE=...`: each suite reproduces a text on the speed of backups, and measures ours.

A suite measures conditions in turns, A B C C B A, and gives a `SuiteResult`; `report` makes a
table, a chart and pages of it. Nothing here needs another backup program.
"""
