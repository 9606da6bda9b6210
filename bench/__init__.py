"""Workloads and peers: the same work, measured side by side, in one process."""
