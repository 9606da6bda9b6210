"""Loops as they are written: what a nest does to memory, in which order it may be done, as tensors where it can be, and as loops where it stays (`raise_loops.py`)."""
