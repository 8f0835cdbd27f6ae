"""The rows of `make bench`: a data set each, and every program's steps on it, in turns."""
