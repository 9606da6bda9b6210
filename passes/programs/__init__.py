"""What passes on programs share (`simplify_index.py`, `hoist.py`, `outline.py`)."""
