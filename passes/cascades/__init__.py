"""The algebra of reductions over one axis that run in one pass, and the nodes in which it is written down (`cascade.py`)."""
