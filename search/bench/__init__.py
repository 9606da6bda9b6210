"""`luminal bench`: kernels timed beside their peers and against what the machine can do at all.

`measure` brings one composite at one binding of its sizes to a `Row`: checked (`trial`), its peers made (`peers`, from `forms` by name and from the graph by
`translate`) and compared, all timed in alternating blocks (`blocks`), beside the ceilings of the machine (`ceiling`).
"""
