"""Composites with compile-time parameters: what their own tests bind beside the defaults, and that all of it compiles."""

from __future__ import annotations

import pytest
from luminal.dsl import read_file
from luminal.dsl.scope import LIBRARY
from luminal.search.conformance.sizes import bindings
from luminal.search.conformance.subjects import DTYPE_ORDER, OWN, Subject, library

SUBJECTS = library()


@pytest.mark.parametrize("folder", sorted(p.name for p in LIBRARY.iterdir() if p.is_dir() and any(p.glob("*.toml"))))
def test_every_parameter_has_another_value_than_its_default_in_some_test(folder: str) -> None:
    for path in sorted((LIBRARY / folder).glob("*.toml")):
        composite = read_file(path)[-1]
        bound = {k for instance in composite.test.instances for k in instance}
        assert {p.name for p in composite.parameters} <= bound, path.stem
        for p in composite.parameters:
            assert any(instance.get(p.name, p.default) != p.default for instance in composite.test.instances), (path.stem, p.name)


@pytest.mark.parametrize("subject", [s for s in SUBJECTS if len(s.instances) > 1], ids=lambda s: s.name)
def test_every_instance_elaborates_and_has_sizes(subject: Subject) -> None:
    dtype = "f32" if subject.dtypes == DTYPE_ORDER else OWN
    for instance in subject.instances:
        graph = subject.graph(dtype, 1, instance)
        found = bindings(graph, instance.sizes, True)
        assert not graph.sizes or len(found) >= 2, (instance, found)
