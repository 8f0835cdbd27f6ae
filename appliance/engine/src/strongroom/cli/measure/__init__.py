"""Measures a machine: what bounds a backup of it, and what to set.

`profile` has the results as typed values, `verdict` reads them, the other modules measure. Nothing
here writes outside the folder it is given, and what it writes there it removes.
"""
