"""What a runtime computes right: every operator and every library composite on it, compared with the reference.

subjects    what is tested: one graph for each primop and derived operator, the composites of `ops/`
kernels     one subject at one dtype, in one memory layout: its graph and its program, or why there is none
sizes       which sizes a kernel is run at
values      what its inputs hold
distance    how far results are off, in units of the last place
unit        many kernels in one library: built together, run in a worker, judged
survey      all units, in several processes, resumable
report      the results as Markdown and JSON
"""
