"""Plans for what is read again in two directions: register tiles, packed panels, blocks for the caches."""
