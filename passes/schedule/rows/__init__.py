"""Plans for what is read once, or along rows: vectors, threads, what goes past the caches."""
