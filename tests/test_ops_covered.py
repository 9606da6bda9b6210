"""Every composite of the library has a name of its own, says what it is, and is checked against somebody else's definition."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from library import Case
from luminal.dsl import read_file
from luminal.dsl.names import fold
from luminal.dsl.scope import LIBRARY

HERE = Path(__file__).parent
# what no table of `Case`s can say: the test that does.  Those of test_ops_random are judged by their distribution, or by published vectors.
BY_A_TEST = {
    "test_dsl_convolution": {"conv1d": "test_convolutions", "conv2d": "test_convolutions", "conv3d": "test_convolutions", "maxpool2d": "test_pools", "avgpool2d": "test_pools"},
    "test_ops_random": {
        "philox": "test_published_vectors", "threefry": "test_published_vectors", "random_bits": "test_the_numbers_of_positions",
        "categorical": "test_classes_follow_their_logits", "dirichlet": "test_a_point_of_the_simplex", "permutation": "test_permutation",
        "rand": "test_the_numbers_of_positions", "randn": "test_the_numbers_of_positions",
    },
}  # fmt: skip


def parameters(module: ModuleType) -> Iterator[object]:
    """Everything that a test of the module is parametrised by."""
    for function in vars(module).values():
        for mark in getattr(function, "pytestmark", ()) if callable(function) else ():
            if mark.name == "parametrize":
                for row in mark.args[1]:
                    values = getattr(row, "values", row)  # pytest.param has more beside them
                    yield from values if isinstance(values, tuple) else (values,)


def test_every_composite_has_an_independent_check() -> None:
    checked: set[str] = set()
    for path in sorted(HERE.glob("test_ops_*.py")):
        module = import_module(path.stem)
        checked |= {p.name for p in parameters(module) if isinstance(p, Case)}
    random = import_module("test_ops_random")
    checked |= {name for name, *_ in (*random.DISTRIBUTIONS, *random.COUNTS)}
    for file, tests in BY_A_TEST.items():
        for name, test in tests.items():
            text = inspect.getsource(getattr(import_module(file), test))
            assert re.search(rf"\b{name.rstrip('123d')}", text) or name in ("philox", "threefry"), (name, test)
            checked.add(name)
    assert [p.stem for p in sorted(LIBRARY.glob("*/*.toml")) if p.stem not in checked] == []


def test_names_are_found_in_one_place() -> None:
    """A call folds case, `-` and `_`; a composite that stands before another in the alphabet would hide it."""
    count = Counter(fold(p.stem) for p in LIBRARY.glob("*/*.toml"))
    assert [name for name, times in count.items() if times > 1] == []


def test_every_composite_says_what_it_is() -> None:
    """The first line of its documentation is what lists show."""
    for path in sorted(LIBRARY.glob("*/*.toml")):
        composite = read_file(path)[-1]
        first = composite.documentation.split("\n")[0]
        assert composite.name == path.stem and composite.test.sizes, path
        assert first.endswith((".", ":", "…")) and len(first) <= 260, f"{path.stem}: {first!r}"
