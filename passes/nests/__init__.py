"""From values of a graph to loops: what is made real (`fuse.py`), the nests, their memory, and cascades as loops (`make_nests.py`)."""
