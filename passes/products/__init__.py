"""Sums of products, under choices and of several terms, as products that are faster (`reassociate.py`, `ask_after.py`, `merge_sums.py`)."""
