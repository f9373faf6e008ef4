"""The stubs are those of the module, the types fit, and the examples run."""
import ast
import doctest
import os
import subprocess
import sys
from pathlib import Path

import m3ipc
import m3ipc.aio
import m3ipc.codec
import pytest

PACKAGE = Path(m3ipc.__file__).parent
# A program with types, and one that mypy must refuse.
TYPED = """
from dataclasses import dataclass
import m3ipc
@dataclass
class Sum:
    value: int
def ask(endpoint: m3ipc.Endpoint) -> int:
    answer: m3ipc.Message = endpoint.call(5, b"x", timeout=1.5)
    typed: Sum = endpoint.call(5, returns=Sum)
    return len(answer.data) + typed.value + answer.source
"""


def mypy(folder, *words):
    """Runs mypy of the tools for the installed package."""
    tools = os.environ["M3_TOOLS"]
    program = f"import sys; sys.path.append({tools!r}); " + words[0]
    environment = os.environ | {"MYPY_CACHE_DIR": os.path.join(tools, "mypy_cache")}
    return subprocess.run([sys.executable, "-c", program, *words[1:]], env=environment,
                          capture_output=True, text=True, cwd=folder)


def test_the_stubs_are_those_of_the_module(tmp_path):
    # Python has these two methods from 3.12 on.
    allowed = tmp_path / "allowed"
    allowed.write_text("m3ipc._native.Block.__(release_)?buffer__\n")
    ran = mypy(tmp_path, "import mypy.stubtest as t; sys.exit(t.main())", "m3ipc._native",
               "--allowlist", str(allowed), "--ignore-unused-allowlist")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("wrong", [False, True])
def test_programs_get_types(tmp_path, wrong):
    program = tmp_path / "program.py"
    program.write_text(TYPED + ("    return answer.data\n" if wrong else ""))
    ran = mypy(tmp_path, "from mypy.__main__ import console_entry as m; m()", "--strict",
               "--warn-unreachable", "--python-executable", sys.executable, str(program))
    assert (ran.returncode == 0) is not wrong, ran.stdout + ran.stderr


@pytest.mark.parametrize("module", ["", ".aio", ".codec", ".errors", ".arrays"])
def test_examples_run(node, module):
    named = sys.modules["m3ipc" + module]
    flags = doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS
    assert doctest.testmod(named, optionflags=flags).failed == 0


def test_examples_of_the_stubs_run(node):
    tree = ast.parse((PACKAGE / "_native.pyi").read_text())
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    for part in ast.walk(tree):
        if isinstance(part, ast.ClassDef) and (text := ast.get_docstring(part)):
            runner.run(parser.get_doctest(text, vars(m3ipc).copy(), part.name, None, part.lineno))
    assert (runner.failures, runner.tries > 3) == (0, True)


def test_help_has_the_texts_of_the_stubs():
    tree = ast.parse((PACKAGE / "_native.pyi").read_text())
    seen = 0
    for kind in (part for part in tree.body if isinstance(part, ast.ClassDef)):
        held = getattr(m3ipc._native, kind.name)
        texts = {"": ast.get_docstring(kind)}
        for part in kind.body:
            if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
                texts[part.name] = ast.get_docstring(part) or texts.get(part.name)
        for name, text in texts.items():
            assert text, f"{kind.name}.{name} has no text in the stub"
            assert (getattr(held, name) if name else held).__doc__ == text, f"{kind.name}.{name}"
            seen += 1
    assert seen > 60
