"""Sharing: what several clients have is stored once, for all of them.

share      the job: counts, copies, indexes
counting   which offered chunks enough clients have, and where each is taken from
copying    shared packs from the chosen chunks
"""
