"""Workloads and peers: the same work, measured side by side, in one process (`python -m luminal.bench`); and what the passes cost (`passes`)."""
