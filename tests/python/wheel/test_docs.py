"""The programs of the page about Python, and the example, run with the wheel."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/cookbook/python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
EXAMPLE = ROOT / "examples/python/arrays.py"


def run(program):
    return subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=50)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_blocks_of_the_page_run(node, tmp_path, number):
    program = tmp_path / "block.py"
    program.write_text(BLOCKS[number])
    ran = run(program)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_example_runs_and_is_short(node):
    ran = run(EXAMPLE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "doubled: 42.0 42.0" in ran.stdout and "died after it took" in ran.stdout
    lines = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    assert len(lines) <= 40, len(lines)
