"""PolyBench's kernels as composites, beside the same loops in C: `python -m luminal.bench.polybench`; README.md says which is which."""
