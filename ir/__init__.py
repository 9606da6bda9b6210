"""The levels and what they share.  Nothing here imports another room."""
