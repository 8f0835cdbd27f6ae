"""Strongroom measured: against its peers, over the network, and beside published texts.

A distribution of its own that is never installed on a host: it runs from a checkout, by `make
bench`. `rows` has the same steps of every program on the same data, `suites` reproduce published
measurements, `network` measures daemons and fleets; they share peers, data sets, a testbed and
charts. Figures are medians of rounds in which the conditions take turns.
"""
