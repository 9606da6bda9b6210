"""-O3 and `luminal tune`: candidates from the script of the automatic schedule, ranked by a model, measured here, the winner kept as a record.

alternatives.py   what may stand in the place of the default: graphs without an optional pass, and the kernels of each
space.py          the neighbours of a script: every number of it, every step that it could do without
estimate.py       hard limits and the rank of a scheduled kernel, without running it
bench.py          several candidates in one translation unit: checked against the reference, then timed in alternating blocks
climb.py          which candidates are tried in which order, within a budget of seconds
records.py        what was found, on disk
session.py        the whole for one composite and one binding of its sizes
"""
