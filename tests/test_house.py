"""The house is in order: imports point one way, documentation is true, examples run."""

import ast
import doctest
import pkgutil
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import fedfleet
from benchmarks.house import imports_of, measures, module_of
from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from tests import processes
from tests.conftest import in_order

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language):
    """Fenced blocks of a language in all pages, each with a name."""
    result = []
    for path in PAGES:
        for i, text in enumerate(re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.M | re.S)):
            result.append(pytest.param(text, id=f"{path.relative_to(ROOT)}:{i}"))
    return result


@pytest.mark.slow
def test_imports_point_one_way():
    done = subprocess.run([Path(sys.executable).with_name("lint-imports"), "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("code", blocks("python"))
def test_python_in_the_documentation_runs(code):
    exec(compile(code, "<documentation>", "exec"), {})


@pytest.mark.slow
@pytest.mark.parametrize("text", blocks("toml"))
def test_specs_in_the_documentation_are_valid(text):
    assemble(resolve(tomllib.loads(text)))


# The newcomer's study takes a minute: tests/docs/test_newcomer.py runs a small one, make soak the whole. A page runs own_folder.py.
SHORT = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name not in ("newcomer.py", "own_folder.py")]


@pytest.mark.slow
@pytest.mark.parametrize("path", SHORT, ids=lambda p: p.name)
def test_examples_run(path):
    done = processes.run(str(path), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda p: p.name)
def test_example_specs_are_valid(path):
    assemble(resolve(tomllib.loads(path.read_text())))


def test_the_first_page_shows_the_example_that_is_there():
    assert (ROOT / "examples/first.toml").read_text() in (ROOT / "docs/how-to/first-run.md").read_text()


def test_the_citation_names_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["version"] == project["version"] == fedfleet.__version__
    assert cited["license"] == project["license"]


def test_the_readme_stays_short():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 110 and len(text.split()) <= 900


@pytest.mark.slow
def test_the_reference_is_up_to_date():
    from docs.make_reference import PAGES as MADE

    for path, made in MADE.items():
        assert path.read_text() == made(), "run make docs"


def test_every_measure_of_a_run_is_in_the_reference():
    from fedfleet.measure.summary import summary

    said = (ROOT / "docs/reference/measures.md").read_text()
    assert [key for key in summary([]) if f"| `{key}` |" not in said] == []


def test_every_kind_of_journal_row_is_in_the_reference():
    from fedfleet.store.journal_file import FORMAT
    from fedfleet.store.journal_rows import KIND_NAMES

    said = (ROOT / "docs/reference/journal.md").read_text()
    assert f"format {FORMAT}." in said
    assert [number for number in KIND_NAMES if f"\n| {number} | " not in said] == []


def test_links_in_the_documentation_lead_somewhere():
    for path in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path}: {target}"


@pytest.mark.slow
def test_docstring_examples():
    for module in pkgutil.walk_packages(fedfleet.__path__, "fedfleet."):
        if module.name == "fedfleet.tasks.kernels" and find_spec("triton") is None:
            continue  # Triton comes with CUDA builds of torch only
        result = find_spec(module.name)
        if result and result.origin and ">>>" in Path(result.origin).read_text(encoding="utf-8"):
            results = doctest.testmod(import_module(module.name))
            assert results.failed == 0, module.name


def test_the_tree_keeps_its_manners():
    for path in (ROOT / "fedfleet").rglob("*.py"):
        if "_pb2" in path.name:
            continue
        assert path.stem not in {"utils", "helpers", "common", "base"}, path
        assert len(path.read_text().splitlines()) <= 400, f"{path} has grown a second meaning"


def test_texts_are_utf8_whatever_the_language_of_the_machine():
    for path in (ROOT / "fedfleet").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        calls = [c for c in ast.walk(ast.parse(text)) if isinstance(c, ast.Call)] if "_text(" in text else []
        for call in calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("read_text", "write_text"):
                assert "encoding" in [k.arg for k in call.keywords], f"{path}:{call.lineno} has no encoding"


# What a name may be although it ends like a verb: each for its reason.
VERBAL_NAMES = {
    "fedfleet.network.rules.pace_steering": "the field's term (Bonawitz et al. 2019)",
    "fedfleet.pace.buffered": "the policy `buffered`, which a spec names",
    "fedfleet.shuffle.rounding": "a noun of mathematics: from real numbers to whole ones",
    "fedfleet.tasks.pretraining": "the field's term",
}


@pytest.fixture(scope="module")
def house():
    """The figures of the source, with the names behind each."""
    return measures(ROOT / "fedfleet")


@pytest.mark.slow
def test_a_module_is_named_by_a_noun(house):
    assert set(house["modules_gerund_or_participle"]) <= set(VERBAL_NAMES), "name the thing, not what happens to it"


@pytest.mark.slow
def test_no_module_name_stands_for_two_modules_of_a_package(house):
    assert house["names_used_twice_in_a_package"] == []


@pytest.mark.slow
def test_functions_are_verbs_or_what_they_return(house):
    assert len(house["functions_bare_participle"]) < 60, house["functions_bare_participle"]


@pytest.mark.slow
def test_no_object_owns_too_much(house):
    assert house["classes_over_15_fields"] == []


# Modules that hold only types or tables: what they declare is tested where it is used.
ONLY_TYPES = {
    "fedfleet.core.commands",  # what the coordinator can ask for
    "fedfleet.core.events",  # facts and outcomes
    "fedfleet.core.part_facts",  # what a rule may ask about the task
    "fedfleet.core.parts",  # the types of parts
    "fedfleet.core.records",  # the records that travel between parts
    "fedfleet.core.sources",  # the types of what a world is made of
}


def test_every_module_is_tested_where_one_looks_for_it():
    """In the folder of tests that mirrors its own: by a file of its name, or by one that imports it."""
    files = [path for path in sorted((ROOT / "fedfleet").rglob("*.py")) if "_pb2" not in path.name]
    modules = {module_of(ROOT / "fedfleet", path): path for path in files if path.stem not in ("__init__", "__main__")}
    imported = {f: imports_of(ast.parse(f.read_text()), set(modules)) for f in (ROOT / "tests").rglob("test_*.py")}
    missing = []
    for name, path in modules.items():
        folder = ROOT / "tests" / path.relative_to(ROOT / "fedfleet").parent
        tests = [f for f in (*folder.glob("test_*.py"), folder.parent / f"test_{folder.name}.py") if f.is_file()]
        if name not in ONLY_TYPES and not any(f.stem == f"test_{path.stem}" or name in imported[f] for f in tests):
            missing.append(name)
    assert missing == [], "a test file in the same folder imports it, or has its name"


def test_tests_are_put_in_order_and_none_is_lost():
    """Each process begins with its part of the long tests; Ray's come first of all."""
    slow = pytest.mark.slow.mark
    names = ["a", "b", "c", "d", "e", "test_ray.py"]
    items = [
        SimpleNamespace(path=Path(name), get_closest_marker=lambda mark, name=name: slow if name not in "ace" else None)
        for name in names
    ]
    assert [item.path.name for item in in_order(items, 2)] == ["test_ray.py", "a", "b", "d", "c", "e"]
    for number in (1, 2, 3, 7):
        assert sorted(item.path.name for item in in_order(items, number)) == names
