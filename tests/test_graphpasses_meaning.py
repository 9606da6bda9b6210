"""Each pass on the graph, and the way into kernels, keeps the meaning: random graphs and composites, odd sizes, races looked for."""

import random
import re

import pytest
from luminal.ir.dtypes import f32
from luminal.ir.evaluate import evaluate
from luminal.ir.expr import ZERO, axis, size
from luminal.ir.graph import Graph, Port, Size, View, elementwise, identity, input_node, reduce_node
from luminal.ir.target import Options
from luminal.ir.text import show
from luminal.ir.verify import verify
from luminal.passes.fuse import fuse
from luminal.passes.legalize import legalize
from luminal.passes.make_nests import make_nests
from luminal.passes.raise_loops import raise_loops
from luminal.passes.simplify import simplify
from random_ir import random_graph, sizes_for
from running import TARGET, agree, composite, draw, meaning, outputs


def check(graph: Graph, sizes: dict[str, int], seed: int, context: str) -> None:
    if not all(evaluate(e, sizes) for e in graph.requires):
        return
    inputs = draw(graph, sizes, seed)
    want = meaning(graph, inputs, sizes)
    for level in (0, 2):
        options = Options(level=level)
        ir = graph
        for run in (raise_loops, simplify, fuse):
            ir = run(ir, TARGET, options)
            verify(ir)
            agree(meaning(ir, inputs, sizes), want, graph, f"{context}, {run.__name__} at -O{level}\n{show(ir)}")
        module = make_nests(ir, TARGET, options)
        verify(module)
        module = legalize(module, TARGET, options)  # sums of small floats are kept in f32
        agree(outputs(module, inputs, sizes, seed), want, graph, f"{context}, make_nests at -O{level}\n{show(module)}")


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed):
    rng = random.Random(seed)
    graph = random_graph(rng)
    for _ in range(2):
        sizes = sizes_for(rng, graph)
        check(graph, sizes, seed, f"seed {seed}, sizes {sizes}\n{show(graph)}")


LOOPS = {
    "gemm": "((A[M K] B[K N] C[M N]) -> (C)) (dotimes (i m) (dotimes (j n) (dotimes (p k) (incf (aref C i j) (* (aref A i p) (aref B p j))))))",
    "gemm, p outermost": "((A[M K] B[K N] C[M N]) -> (C)) (dotimes (p k) (dotimes (j n) (dotimes (i m) (setf (aref C i j) (+ (aref C i j) (* (aref A i p) (aref B p j)))))))",
    "gemm, local sum": "((A[M K] B[K N] C[M N]) -> (C)) (dotimes (i m) (dotimes (j n) (set s 0) (dotimes (p k) (incf s (* (aref A i p) (aref B p j)))) (setf (aref C i j) s)))",
    "softmax": "((X[M N]) -> (Y[M N])) (dotimes (i m) (set mx -inf) (dotimes (j n) (maxf mx (aref X i j))) (set s 0.0) (dotimes (j n) (incf s (exp (- (aref X i j) mx)))) (dotimes (j n) (setf (aref Y i j) (/ (exp (- (aref X i j) mx)) s))))",
    "relu": "((X[N]) -> (Y[N])) (dotimes (i n) (setf (aref Y i) (if (< (aref X i) 0) 0 (aref X i))))",
    "guarded store": "((X[N] Y[N]) -> (Y)) (dotimes (i n) (if (< (aref X i) 0) (setf (aref Y i) (aref X i))))",
    "reverse": "((X[N]) -> (Y[N])) (dotimes (i n) (setf (aref Y i) (aref X (- n i 1))))",
    "reverse in place": "((X[N]) -> (X)) (dotimes (i n) (setf (aref X i) (aref X (- n i 1))))",
    "counting down": "((X[N]) -> (Y[N])) (loop (i (- n 1) -1 -1) (setf (aref Y i) (* 2 (aref X i))))",
    "X + its shift": "((X[N]) -> (X)) (dotimes (i (- n 1)) (setf (aref X i) (+ (aref X i) (aref X (+ i 1)))))",
    "prefix sum": "((X[N]) -> (X)) (loop (i 1 n) (incf (aref X i) (aref X (- i 1))))",
    "prefix sums of rows": "((X[M N]) -> (X)) (dotimes (i m) (loop (j 1 n) (incf (aref X i j) (aref X i (- j 1)))))",
    "prefix sums of columns": "((X[M N]) -> (X)) (loop (i 1 m) (dotimes (j n) (incf (aref X i j) (aref X (- i 1) j))))",
    "a local of each iteration": "((X[N N]) -> (X)) (dotimes (i n) (set a 0.0) (dotimes (j n) (incf a (aref X i j)) (setf (aref X i j) a)))",
    "Floyd-Warshall": "((D[N N]) -> (D)) (dotimes (k n) (dotimes (i n) (dotimes (j n) (minf (aref D i j) (+ (aref D i k) (aref D k j))))))",
    "histogram": "((I{int}[N] H{float}[K]) -> (H)) (dotimes (i n) (incf (aref H (aref I i))))",
    "lower triangle": "((A[N N]) -> (Y[N N])) (dotimes (i n) (loop (j 0 (+ i 1)) (setf (aref Y i j) (* 2 (aref A i j)))))",
    "triangular sum": "((A[N N]) -> (Y[N])) (dotimes (i n) (loop (j 0 (+ i 1)) (incf (aref Y i) (aref A i j))))",
    "triangular product": "((A[N N] B[N N]) -> (C[N N])) (dotimes (i n) (dotimes (j n) (loop (p 0 (+ i 1)) (incf (aref C i j) (* (aref A i p) (aref B p j))))))",
    "two stores": "((A[N]) -> (Y[N] Z[N])) (dotimes (i n) (setf (aref Y i) (* 2 (aref A i))) (setf (aref Z i) (+ (aref Y i) 1)))",
    "a store read one iteration later": "((A[N]) -> (Y[N] Z[N])) (loop (i 1 n) (setf (aref Y i) (* 2 (aref A i))) (setf (aref Z i) (aref Y (- i 1))))",
    "a store read one iteration earlier": "((A[N]) -> (Y[N] Z[N])) (dotimes (i (- n 1)) (setf (aref Z i) (aref Y (+ i 1))) (setf (aref Y i) (* 2 (aref A i))))",
    "a store read too early": "((A[N]) -> (Y[N] Z[N])) (dotimes (i (- n 1)) (setf (aref Y i) (* 2 (aref A i))) (setf (aref Z i) (aref Y (+ i 1))))",
    "swap": "((A[N] B[N]) -> (A B)) (dotimes (i n) (set x (aref A i)) (setf (aref A i) (aref B i)) (setf (aref B i) x))",
    "every other element": "((X[N]) -> (X)) (dotimes (i (floordiv n 2)) (setf (aref X (* 2 i)) 0))",
    "the last one wins": "((X[N]) -> (Y[1])) (dotimes (i n) (setf (aref Y 0) (aref X i)))",
    "convolution": "((X[N] W[3]) -> (Y[N])) (loop (i 1 (- n 1)) (dotimes (k 3) (incf (aref Y i) (* (aref W k) (aref X (+ i k -1))))))",
    "transposed into itself": "((A[N N]) -> (A)) (dotimes (i n) (dotimes (j n) (incf (aref A i j) (aref A j i))))",
    "embedding": "((X{float}[K N] I{int}[M]) -> (Y{float}[M N])) (dotimes (i m) (dotimes (j n) (setf (aref Y i j) (* 2 (aref X (aref I i) j)))))",
    "diagonal": "((A[N N]) -> (A)) (dotimes (i n) (setf (aref A i i) 1))",
    "nested sums": "((A[M N] B[N]) -> (Y[M])) (dotimes (i m) (set s 0.0) (dotimes (j n) (set t1 0.0) (dotimes (l n) (incf t1 (aref B l))) (incf s (* t1 (aref A i j)))) (setf (aref Y i) s))",
    "conditional sum": "((A[M N]) -> (Y[M])) (dotimes (i m) (set s 1.0) (dotimes (j n) (if (> (aref A i j) 0) (incf s (aref A i j)) (decf s 1))) (setf (aref Y i) s))",
    "running maximum": "((X[N]) -> (Y[N])) (set best -inf) (dotimes (i n) (maxf best (aref X i)) (setf (aref Y i) best))",
    "last of a scalar": "((X[N] Y[N]) -> (Y)) (set last 0.0) (dotimes (i n) (set last (aref X i))) (dotimes (i n) (setf (aref Y i) last))",
    "product into a port": "((X[N] P[]) -> (P)) (dotimes (i n) (mulcf P (aref X i)))",
    "local array outside": "((X[N]) -> (Y[N])) (progn (make-array w float (n)) (dotimes (i n) (setf (aref w i) (* 2 (aref X i)))) (dotimes (i n) (setf (aref Y i) (aref w (- n i 1)))))",
    "local array inside": "((X[M N]) -> (Y[M N])) (dotimes (i m) (make-array w float (n)) (dotimes (j n) (setf (aref w j) (aref X i (- n j 1)))) (dotimes (j n) (setf (aref Y i j) (aref w j))))",
    "step 2": "((X[N]) -> (Y[N])) (loop (i 0 n 2) (setf (aref Y i) (aref X i)))",
    "step 2 sum": "((X[N]) -> (S[])) (loop (i 0 n 2) (incf S (aref X i)))",
    "data bounds": "((L{int}[M] X[M N]) -> (Y[M])) (dotimes (i m) (loop (j 0 (min n (cast i64 (aref L i)))) (incf (aref Y i) (aref X i j))))",
    "nested if": "((X[N]) -> (Y[N])) (dotimes (i n) (if (> (aref X i) 0) (if (> (aref X i) 1) (setf (aref Y i) 1) (setf (aref Y i) (aref X i))) (setf (aref Y i) 0)))",
    "two sums one loop": "((X[N]) -> (A[] B[])) (dotimes (i n) (incf A (aref X i)) (incf B (* (aref X i) (aref X i))))",
    "sum then use": "((X[N]) -> (Y[N] S[])) (progn (dotimes (i n) (incf S (aref X i))) (dotimes (i n) (setf (aref Y i) (/ (aref X i) S))))",
    "argmax": "((X[N]) -> (B{i64}[])) (progn (set best -inf) (dotimes (i n) (if (> (aref X i) best) (progn (set best (aref X i)) (setf B i)))))",
    "lu": "((A[N N]) -> (A)) (dotimes (k n) (loop (i (+ k 1) n) (setf (aref A i k) (/ (aref A i k) (aref A k k))) (loop (j (+ k 1) n) (decf (aref A i j) (* (aref A i k) (aref A k j))))))",
    "blocked": "((X[N]) -> (Y[N])) (dotimes (b (floordiv n 4)) (dotimes (r 4) (setf (aref Y (+ (* 4 b) r)) (* 3 (aref X (+ (* 4 b) r))))))",
    "permuted accumulation": "((X[N] I{int}[N]) -> (Y[N])) (dotimes (i n) (incf (aref Y (mod (* 7 i) n)) (aref X i)))",
    "fma": "((A[M K] B[K]) -> (Y[M])) (dotimes (i m) (dotimes (p k) (setf (aref Y i) (fma (aref A i p) (aref B p) (aref Y i)))))",
    "max of a guarded": "((X[N]) -> (Y[])) (progn (setf Y -inf) (dotimes (i n) (if (< i 2) (maxf Y (aref X i)))))",
    "conv2d": "((X[M N] W[3 3]) -> (Y[M N])) (loop (i 1 (- m 1)) (loop (j 1 (- n 1)) (dotimes (a 3) (dotimes (b 3) (incf (aref Y i j) (* (aref W a b) (aref X (+ i a -1) (+ j b -1))))))))",
    "int sum": "((X{int}[N]) -> (Y{int}[])) (dotimes (i n) (incf Y (* i (aref X i))))",
    "subtracted": "((A[M N] Y[M]) -> (Y)) (dotimes (i m) (dotimes (j n) (decf (aref Y i) (aref A i j))))",
}
TENSORS = {
    "softmax": "((X[M N]) -> (Y[M N])) (setf e (exp (- X (max X :axis 1 :keepdims t)))) (return (/ e (sum e :axis 1 :keepdims t)))",
    "softmax in place": "((X[M N]) -> (X)) (setf e (exp (- X (max X :axis 1 :keepdims t)))) (return (/ e (sum e :axis 1 :keepdims t)))",
    "softmax of columns in place": "((X[M N]) -> (X)) (setf e (exp (- X (max X :axis 0 :keepdims t)))) (return (/ e (sum e :axis 0 :keepdims t)))",
    "A + A' in place": "((A[N N]) -> (A)) (return (+ A (transpose A)))",
    "swapped": "((A[N] B[N]) -> (A B)) (return B A)",
    "one value twice": "((A[N]) -> (Y[N] Z[N])) (setf y (* A A)) (return y y)",
    "the old and the new": "((A[N] B[N]) -> (A B)) (setf a (+ A 1)) (return a (+ B (* A a)))",
    "concat": "((A[M] B[N] C[K]) -> (Y[(+ M (+ N K))])) (return (concat A (exp B) C))",
    "concat of columns": "((A[M N] B[M K]) -> (Y[M (+ N K)])) (return (concat A (exp B) :axis 1))",
    "padded": "((X[M N]) -> (Y[(+ M 2) (+ N 2)])) (return (exp (pad X (1 1) (1 1))))",
    "padded, its mask twice": "((X[M]) -> (Y[(+ M 2)])) (setf x (exp (pad X (1 1)))) (return (+ x (* x x)))",
    "shifted in place": "((X[N]) -> (X)) (return (pad (slice X (0 (- N 1))) (1 0)))",
    "lower triangle": "((X[N N]) -> (X)) (return (tril (exp X)))",
    "concat of sums": "((A[M N] B[K N]) -> (Y[(+ M K)])) (return (concat (sum A :axis 1) (sum B :axis 1)))",
    "padded row sums": "((A[M N]) -> (Y[(+ M 2)])) (return (exp (pad (sum A :axis 1) (1 1) :value 3)))",
    "chain of products": "((A[M K] B[K N] C[N K]) -> (Y[M K])) (return (matmul (matmul A B) C))",
    "two layers": "((X[M K] W[K N] V[N K] B[N]) -> (Y[M K])) (return (matmul (tanh (+ (matmul X W) B)) V))",
    "attention": "((Q[M K] L[N K] V[N K]) -> (O[M K])) (setf s (* (matmul Q (transpose L)) 0.5)) (setf e (exp (- s (max s :axis 1 :keepdims t)))) (return (matmul (/ e (sum e :axis 1 :keepdims t)) V))",
    "layer norm": "((X[M N]) -> (Y[M N])) (setf d (- X (mean X :axis 1 :keepdims t))) (return (/ d (sqrt (+ (mean (* d d) :axis 1 :keepdims t) 1e-5))))",
    "scan": "((X[M N]) -> (Y[M N])) (return (* 2 (cumsum (exp X) :axis 0)))",
    "gather of a sum": "((X{float}[K N] I{int}[M]) -> (Y{float}[M])) (return (gather (sum X :axis 1) I))",
    "three stencils": "((X[N]) -> (Y[N])) (setf a (+ X (roll X 1 :axis 0))) (setf b (+ a (roll a 1 :axis 0))) (setf c (+ b (roll b 1 :axis 0))) (return (+ c (roll c 1 :axis 0)))",
    "total": "((X[M N]) -> (Y[M N])) (return (/ X (+ 1 (sum (* X X)))))",
}
SIZES = ({"M": 0, "N": 0, "K": 1}, {"M": 1, "N": 1, "K": 1}, {"M": 3, "N": 5, "K": 2}, {"M": 2, "N": 4, "K": 7})
CASES = {**{f"loops: {k}": v for k, v in LOOPS.items()}, **{f"tensors: {k}": v for k, v in TENSORS.items()}}


def floats(text: str) -> str:
    """Ports without a type are f32."""
    return re.sub(r"\b([A-Z])\[", r"\1{float}[", text)


@pytest.mark.parametrize("name", CASES)
def test_composites(name):
    graph = composite(f"(composite t {floats(CASES[name])})")
    free = [s.name for s in graph.sizes]
    for k, sizes in enumerate(SIZES):
        check(graph, {s: sizes[s] for s in free}, k, f"{name}, sizes {sizes}")


@pytest.mark.parametrize("n", [0, 1, 3])
def test_nothing_is_read_for_loops_that_do_not_run(n):
    """exp(Z)[0] is the same for every element, so it is computed before the loop; where there are no elements, Z has none either."""
    size_n = size("N")
    ports = tuple(Port(name, f32, (size_n,), role) for name, role in (("X", "in"), ("Z", "in"), ("Y", "out")))
    e = elementwise("exp", (size_n,), identity(input_node(ports[1])))
    total = reduce_node("add", (size_n,), (size("K"),), View(input_node(ports[1]), (axis(0),)))
    y = elementwise("add", (size_n,), identity(input_node(ports[0])), View(e, (ZERO,)))
    z = elementwise("mul", (size_n,), identity(y), View(total, (ZERO,)))
    graph = Graph("t", (Size("N"), Size("K")), ports, (("Y", z),))
    check(graph, {"N": n, "K": 2}, n, f"N = {n}")
