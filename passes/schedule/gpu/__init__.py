"""Plans for a GPU: the grid, the threads of a block, tensor cores."""
