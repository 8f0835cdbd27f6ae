"""The restore browser: a file manager on a terminal, over the snapshots of a director.

place          what there is to look at, fetched from the director
marks          what was chosen
program        the application that shows the screens
snapshots      the list of snapshots
files          the listing of a directory, with everything one does there
restoring      the dialog before a restore, and the run after it
"""
