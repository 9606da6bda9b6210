"""Finding runtimes, and the strictness of runtime.toml."""

import re
from pathlib import Path

import luminal.runtimes
import pytest
import tomli
from luminal.cli.main import run
from luminal.compiler import Settings, compilations
from luminal.ir.errors import UsageError
from luminal.ir.record import replace
from luminal.runtimes import find, registry
from luminal.runtimes.clang.machine import MACHINES
from luminal.runtimes.config import resolve_config
from luminal.runtimes.description import OURS, check
from luminal.runtimes.registry import load

INHERITING = "from ..clang.driver import Driver as Base\n\nclass Driver(Base):\n"
CLANG = Path(luminal.runtimes.__file__).parent / "clang"


def folder(tmp_path, text, driver=None):
    place = tmp_path / "my-runtime"
    place.mkdir()
    (place / "runtime.toml").write_text(text)
    if driver:
        (place / "driver.py").write_text(driver)
    return place


def test_by_name_and_by_the_path_of_its_folder():
    assert find("clang") is find(CLANG)
    assert find("clang").name == "clang"


def test_unknown_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean `clang`"):
        find("clnag")
    with pytest.raises(UsageError, match="no folder"):
        find("./no/such/folder")


def test_a_folder_that_only_respells(tmp_path):
    place = folder(
        tmp_path,
        'name = "mine"\ninherits = "clang"\nindent = 4\n[spell]\nexp2 = "my_exp2({0})"\n[config.LEVEL]\ntype = "int"\ndefault = 3\nhelp = "how much"\n',
    )
    runtime = find(place)
    assert runtime.name == "mine" and runtime.folder == place
    target = runtime.target("x86-64-v3", {"level": "7"}, False)
    assert target.runtime == "mine" and target.options["LEVEL"] == 7 and "exp2" in target.native


def test_a_folder_with_a_driver_of_its_own(tmp_path):
    driver = "from ..clang.driver import Driver as Base\n\n\nclass Driver(Base):\n    loud = True\n"
    mine = find(str(folder(tmp_path, 'name = "mine"\ninherits = "clang"\nsuffix = ".cc"\n', driver)))
    assert mine.loud and mine.source_suffix == ".cc"


def test_a_folder_without_driver_or_toml(tmp_path):
    with pytest.raises(UsageError, match="neither a driver"):
        find(folder(tmp_path, 'name = "mine"\n'))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match=r"no runtime\.toml"):
        find(empty)


DRIVER = """
class Driver:
    source_suffix, library_kind = ".c", ("shared", ".so")

    def __init__(self, description, folders):
        self.name, self.folder = description.name, description.folder

    def config_keys(self): ...
    def target(self, name, config, portable): ...
    def render(self, program, target, prefix): ...
    def build(self, rendered, target, kind, path, timeout, log): ...
    def load(self, path, program, target, prefix): return object()
    def environment(self, target): ...
    def identity(self, target): ...
    def run_kind(self, device): ...
    def tools(self, target, device): ...
"""


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        (DRIVER.replace("def run_kind", "def run_kin").replace("source_suffix", "suffix"), "the class Driver lacks `source_suffix`, `run_kind`"),
        ("class Drive: ...", "has no attribute 'Driver'"),
        ("from ..clnag import nothing", "No module named"),
        ("\n\nclass Driver:\n    def __init__(self, *rest):\n        raise OSError('not plugged in')", r"OSError: not plugged in \(line 5\)"),
        ("class Driver", "SyntaxError"),
    ],
)
def test_a_driver_that_is_none_is_told_by_its_file(tmp_path, driver, message):
    with pytest.raises(UsageError, match=rf"driver\.py: .*{message}"):
        find(folder(tmp_path, 'name = "mine"\n', driver))


def test_what_a_driver_loads_is_looked_at_too(tmp_path):
    runtime = find(folder(tmp_path, 'name = "mine"\n', DRIVER))
    with pytest.raises(UsageError, match="what `load` gives lacks `picks`, `extra`, `function`, `bind`, `call`, `time`"):
        load(runtime, tmp_path, None, None, "lm_")


@pytest.fixture
def installing(tmp_path, monkeypatch):
    """Installs a package with an entry point of the runtimes' group, as far as Python can tell."""

    def install(name, files):
        for file, text in {f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
                           f"{name}-1.0.dist-info/entry_points.txt": f"[{registry.GROUP}]\n{name} = {name}\n", **files}.items():  # fmt: skip
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        registry._installed.cache_clear()

    yield install
    registry._installed.cache_clear()


def test_an_installed_runtime_is_found_by_its_name(installing):
    installing("abacus", {"abacus/__init__.py": "", "abacus/runtime.toml": 'name = "abacus"\ninherits = "clang"\nindent = 4\n'})
    assert find("abacus").name == "abacus" and "abacus" in registry.names() and find("abacus").target(None, {}, True).runtime == "abacus"
    with pytest.raises(UsageError, match="did you mean `abacus`"):
        find("abakus")


def test_an_installed_runtime_that_cannot_be_imported(installing):
    installing("sundial", {"sundial/__init__.py": "import no_such_module_anywhere\n"})
    with pytest.raises(UsageError, match=r"installed runtime `sundial` \(sundial\): ModuleNotFoundError"):
        find("sundial")


def test_inheriting_in_a_circle(tmp_path):
    for a, b in (("one", "two"), ("two", "one")):
        (tmp_path / a).mkdir()
        (tmp_path / a / "runtime.toml").write_text(f'name = "{a}"\ninherits = "../{b}"\n')
    with pytest.raises(UsageError, match="circle"):
        find(tmp_path / "one")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("suffix = 3", "expected a string, found an integer"),
        ('suffix = ".cpp"', "builds `.c`; leave the line out, or bring a driver.py"),
        ("[compiler]\nx = 3", "unknown key `compiler`"),
        ('[spell]\nsqrt = "f({1})"', "there is no operand {1}; the operator has {0}"),
        ('[spell]\nadd = {float = "{3}"}', "there is no operand {3}; the operator has {0} to {1}"),
        ('[spell]\nexp = "{Q}({0})"', "unknown field `Q`"),
        ('sufix = ".c"', "did you mean `suffix`"),
        ('[spell]\nexp3 = "f({0})"', "unknown operator `exp3`; did you mean `exp"),
        ('[spell]\nadd = {flot = "{0}"}', "did you mean `float`"),
        ('[types]\nf33 = "x"', "did you mean `f3"),
        ("[target]\nthread = true", "did you mean `threads`"),
        ('[config.X]\ntype = "bool"', "`help` is missing"),
        ('[config.X]\ntype = "bol"\nhelp = ""', "did you mean `bool`"),
        ("indent = 3", "2 or 4"),
        ("x = [", "runtime.toml"),
    ],
)
def test_strictness(tmp_path, text, message):
    with pytest.raises(UsageError) as caught:
        find(folder(tmp_path, 'name = "mine"\ninherits = "clang"\n' + text))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("helper", "message"),
    [
        ("{% macro other(t) %}x{% endmacro %}\n", "there is no such helper"),
        ("{% macro root(t) %}{{ t.nothing }}{% endmacro %}\n", "the helper `root` of .*helpers.*no attribute 'nothing'"),
        ("{% macro root(t) %}{% if %}{% endmacro %}\n", "the helper `root` of .*helpers, line 1: "),
    ],
)
def test_a_helper_that_is_wrong_is_its_authors_mistake(tmp_path, helper, message):
    place = folder(tmp_path, 'name = "mine"\ninherits = "clang"\n[spell]\nsqrt = "@root({0})"\n')
    (place / "helpers").mkdir()
    (place / "helpers" / "own.j2").write_text(helper)
    (found,) = compilations("(composite f ((A{f32}[N]) -> (B{f32}[N])) (return (sqrt A)))", Settings(runtime=str(place)))
    with pytest.raises(UsageError, match=message):
        _ = found.rendered


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("driver.py", INHERITING + "    def render(self, program, target, prefix):\n        return {}['x']\n", r"driver\.py, line 5: KeyError: 'x'"),
        ("source.c.j2", "fine\n{{ nothing_known }}\n", r"source\.c\.j2, line 2: UndefinedError: 'nothing_known' is undefined"),
        ("source.c.j2", "fine\n{% if %}\n", r"source\.c\.j2, line 2: TemplateSyntaxError"),
    ],
)
def test_a_driver_or_template_that_fails_is_told_with_its_line(tmp_path, capsys, file, text, message):
    place = folder(tmp_path, 'name = "mine"\ninherits = "clang"\n')
    (place / file).write_text(text)
    assert run(["compile", "gemm", "--runtime", str(place), "--emit", "source"]) == UsageError.exit_status
    shown = capsys.readouterr().err
    assert re.search(message, shown) and "bug" not in shown


def test_configuration():
    keys = find("clang").config_keys()
    resolved = resolve_config(keys, {"omp": "off", "VECTOR": "16", "CC": "gcc"}, "clang")
    assert resolved["OMP"] is False and resolved["VECTOR"] == 16 and resolved["SANITIZE"] == ""
    for wrong, message in (
        ({"OPM": 1}, "did you mean `OMP`"),
        ({"OMP": "maybe"}, "expected 0 or 1"),
        ({"VECTOR": "17"}, "one of"),
        ({"VECTOR": "x"}, "integer"),
    ):
        with pytest.raises(UsageError, match=message):
            resolve_config(keys, wrong, "clang")


def test_targets():
    runtime = find("clang")
    assert runtime.target(None, {}, True).name in ("x86-64-v3", "armv8-a")
    native = runtime.target("native", {}, True)
    assert native.name != "native" and native.options["MARCH"] == "native" and str(native.cores) in native.describe
    assert runtime.target("x86-64-v4", {"MARCH": "x86-64-v4"}, False).vector_bytes == 64
    assert not runtime.target(None, {"OMP": 0}, True).threads
    for name, config, message in (("x86-64-v9", {}, "did you mean `x86-64-v"), ("x86-64-v3", {"MARCH": "native"}, "contradict")):
        with pytest.raises(UsageError, match=message):
            runtime.target(name, config, False)


def test_every_primop_is_spelled_for_every_dtype():
    from luminal.ir.primops import OPS

    native = find("clang").target(None, {}, True).native
    assert {op.name for op in OPS.values() if op.primop} - {"cast"} <= native | {"cast"}


@pytest.mark.parametrize("name", ["clang", "cuda", "reference"])
def test_our_own_descriptions_hold(name: str) -> None:
    """What is read at every start without being checked."""
    file = OURS / name / "runtime.toml"
    check(tomli.loads(file.read_text(encoding="utf-8")), str(file))


def test_what_a_cycle_multiplies_follows_from_the_instructions() -> None:
    """AVX-512 that comes with half floats is that of cores that do two whole vectors in a cycle; of others one is assumed."""
    v4 = MACHINES["x86-64-v4"]
    assert v4.multiply_adds == 1 and replace(v4, isa=("avx512_bf16", "avx512_vnni")).multiply_adds == 1
    assert replace(v4, isa=("avx512_fp16",)).multiply_adds == 2 and MACHINES["x86-64-v3"].multiply_adds == 2
    assert find("clang").target("x86-64-v4", {}, False).multiply_adds == 1
