"""Kernels that walk the same rows, or the same blocks, as one (`join.py`, `join_rows.py`, `join_columns.py`, `join_blocks.py`, `split_columns.py`)."""
