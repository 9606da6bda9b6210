"""Small graphs over the sizes M, N and K, and their parts."""

from luminal.ir import expr as ex, graph as g

M, N, K = map(ex.size, "MNK")
AX = [ex.axis(k) for k in range(4)]


def graph(ports, **outputs):
    outs = tuple(g.Port(n, x.dtype, x.shape, "out") for n, x in outputs.items())
    return g.Graph("t", tuple(map(g.Size, "MNK")), tuple(ports) + outs, tuple(outputs.items()))


def port(name, d, *shape, role="in"):
    return g.Port(name, d, shape, role)


def same(*args):
    return [g.identity(a) for a in args]
