"""Compiles and runs the code blocks of the pages.

A fenced block runs if its language is rust, c, cpp, python or console. A comment on the line above
the fence changes that:

    <!-- skip: REASON -->       the block does not run
    <!-- compile: REASON -->    the block is compiled and does not run (rust, c, cpp)
    <!-- file: PATH -->         the block is that file, byte for byte, and runs
    <!-- part of: PATH -->      that file has these lines in this order; other tests run it
    <!-- numbers vary -->       console: numbers with their units are not compared

`run.sh --write` copies the files into their blocks.

- rust: linked with m3ipc, m3ipc_sockets and bytemuck of the build. A block without `fn main`
  becomes the body of one that returns `Result<(), Box<dyn Error>>`.
- c: compiled with all warnings as errors, linked with libm3ipc.
- cpp: the same as C++17. A block without `int main` becomes the body of one, after `m3ipc.hpp`.
- python: with examples/python on the path.
- console: a line that begins with `$ ` is a command (a line after a backslash continues it); the
  commands run in one shell, with the programs of the build on the path. All other lines are the
  expected output; `...` stands for any text, and on a line of its own for any lines. A block
  without such lines passes if its last command succeeds.

Each block runs in its own empty folder, with a runtime directory and a node of its own.
"""
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("rust", "c", "cpp", "python", "console")
LIMIT_S = 120
CPP_INCLUDES = ("m3ipc.hpp", "m3ipc/sock.hpp", "cassert", "string", "thread", "vector")
FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>[a-z]+)[^\n]*\n(?P<text>.*?)^```$",
    re.M | re.S)


class Block:
    """One fenced block of a page."""

    def __init__(self, page, match, text):
        self.page = page
        self.line = text.count("\n", 0, match.start("language")) + 1
        self.language = match["language"]
        self.text = match["text"]
        parts = [part.partition(":") for part in (match["mark"] or "").split(";")]
        self.marks = {key.strip(): value.strip() for key, _, value in parts if key.strip()}

    def __str__(self):
        return f"{self.page}:{self.line} {self.language}"


def blocks_of(page):
    """The blocks of a page that have one of the languages."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [Block(page, match, text) for match in FENCE.finditer(text)]
    return [block for block in found if block.language in LANGUAGES]


def write_files(pages):
    """Copies the named files into their blocks."""
    for page in pages:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")

        def filled(match):
            named = re.fullmatch(r"file: (\S+)", match["mark"] or "")
            if not named or not (ROOT / named[1]).exists():
                return match[0]
            content = (ROOT / named[1]).read_text(encoding="utf-8")
            return f"<!-- {match['mark']} -->\n```{match['language']}\n{content}```"

        path.write_text(FENCE.sub(filled, text), encoding="utf-8")


class Build:
    """Where the build has its libraries and programs."""

    def __init__(self):
        flags = shlex.split(os.environ.get("CARGOFLAGS", "--release"))
        cargo = os.environ.get("CARGO", "cargo")
        built = subprocess.run([cargo, "build", "--quiet", "--message-format=json", *flags],
                               cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        said = built.stdout
        self.rlibs = {}
        self.programs = None
        for line in said.split("\n"):
            artifact = json.loads(line) if line.startswith("{") else {}
            if artifact.get("reason") != "compiler-artifact":
                continue
            for file in artifact["filenames"]:
                if file.endswith(".rlib"):
                    self.rlibs[artifact["target"]["name"]] = file
            if artifact.get("executable"):
                self.programs = Path(artifact["executable"]).parent
        if self.programs is None:
            raise SystemExit("error: the build has no programs; check CARGOFLAGS")
        # The library is installed under another name than cargo's.
        self.library = tempfile.TemporaryDirectory()
        for name in ("libm3ipc.so", "libm3ipc.so.0"):
            os.symlink(self.programs / "libm3ipc_c.so", Path(self.library.name) / name)

    def environment(self, folder):
        """The environment of a block: its own node, and the programs of the build."""
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        return os.environ | {
            "M3_RUNTIME_DIR": str(runtime),
            "M3_DAEMON": str(self.programs / "m3d"),
            "M3_LIBRARY": str(Path(self.library.name) / "libm3ipc.so"),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "examples/python"),
            "LC_ALL": "C.UTF-8",
        }


def rust(build, block, folder):
    """The command that compiles a Rust block, and the one that runs it."""
    text = block.text
    if "fn main" not in text:
        text = f"fn main() -> Result<(), Box<dyn std::error::Error>> {{\n{text}\nOk(())\n}}\n"
    (folder / "block.rs").write_text(text)
    compile_it = ["rustc", "--edition=2024", "-Dwarnings", "-o", "block", "block.rs"]
    for name in ("m3ipc", "m3ipc_sockets", "bytemuck"):
        if name in build.rlibs:
            compile_it += ["--extern", f"{name}={build.rlibs[name]}"]
    compile_it += ["-L", f"dependency={build.programs / 'deps'}"]
    return compile_it, ["./block"]


def linked(build, compiler, source):
    """The command that compiles a source with all warnings and links it with libm3ipc."""
    include = ROOT / "crates/capi/include"
    library = build.library.name
    compile_it = [*compiler, "-Wall", "-Wextra", "-Werror", f"-I{include}", "-o", "block", source]
    return compile_it + [f"-L{library}", f"-Wl,-rpath,{library}", "-lm3ipc", "-lpthread"]


def c(build, block, folder):
    """The commands of a C block."""
    (folder / "block.c").write_text(block.text)
    compiler = [os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE"]
    return linked(build, compiler, "block.c"), ["./block"]


def cpp(build, block, folder):
    """The commands of a C++ block."""
    text = block.text
    if "int main" not in text:
        includes = "".join(f"#include <{name}>\n" for name in CPP_INCLUDES)
        text = f"{includes}int main() {{\n{text}\n}}\n"
    (folder / "block.cpp").write_text(text)
    compiler = [os.environ.get("CXX", "c++"), "-std=c++17"]
    return linked(build, compiler, "block.cpp"), ["./block"]


def python(_build, block, folder):
    """The command of a Python block."""
    (folder / "block.py").write_text(block.text)
    return None, ["python3", "block.py"]


def commands(text):
    """The commands of a console block, and its expected lines."""
    told, expected, goes_on = [], [], False
    for line in text.rstrip("\n").split("\n"):
        if line.startswith("$ ") or goes_on:
            told.append(line.removeprefix("$ "))
            goes_on = line.endswith("\\")
        else:
            expected.append(line)
    return told, [line for line in expected if line]


def console(_build, block, folder):
    """The command of a console block."""
    told, _ = commands(block.text)
    ending = "\nended=$?\nkill $(jobs -p) 2>/dev/null\nwait 2>/dev/null\nexit $ended\n"
    (folder / "block.sh").write_text("\n".join(told) + ending)
    return None, ["bash", "block.sh"]


HOW = {"rust": rust, "c": c, "cpp": cpp, "python": python, "console": console}


def matches(expected, got, numbers_vary):
    """Whether the output is the expected one."""
    def shape(line):
        line = re.sub(r"\s+", " ", line.strip())
        number = r"-?\d[\d.,]*( ?(ns|us|ms|s|x|%|times|GB/s|MB|KB))?(?!\w)"
        return re.sub(number, "N", line) if numbers_vary else line

    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in shape(line).split("...")) + "\n"
    lines = [shape(line) for line in got.split("\n") if line.strip()]
    return re.fullmatch(pattern, "".join(line + "\n" for line in lines)) is not None


def end_daemon(folder):
    """Ends the node daemon of a block, if it left one."""
    lock = folder / "runtime/lock"
    try:
        pid = int(lock.read_text().split()[0])
        if b"m3" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError, IndexError):
        pass


def call(command, folder, environment):
    """Runs a command; its exit code and all that it said."""
    ran = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           start_new_session=True)
    try:
        said, _ = ran.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(ran.pid, signal.SIGKILL)
        said, _ = ran.communicate()
        return 124, said + f"\nended after {LIMIT_S} s"
    return ran.returncode, said


def in_order(part, whole):
    """The first line of a part that the whole does not have in this order, if any."""
    rest = iter([line.strip() for line in whole.split("\n")])
    for line in part.split("\n"):
        if line.strip() and line.strip() != "..." and line.strip() not in rest:
            return line
    return None


def problem_of(build, block):
    """What is wrong with a block, if anything."""
    for mark in ("file", "part of"):
        if mark in block.marks and not (ROOT / block.marks[mark]).exists():
            return f"there is no {block.marks[mark]}"
    if "part of" in block.marks:
        line = in_order(block.text, (ROOT / block.marks["part of"]).read_text(encoding="utf-8"))
        return line and f"{block.marks['part of']} does not have: {line}"
    if "file" in block.marks:
        if (ROOT / block.marks["file"]).read_text(encoding="utf-8") != block.text:
            return f"it is not {block.marks['file']}; run tests/snippets/run.sh --write"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = build.environment(folder)
        compile_it, run_it = HOW[block.language](build, block, folder)
        if compile_it:
            code, said = call(compile_it, folder, environment)
            if code:
                return said
        if "compile" in block.marks:
            return None
        code, said = call(run_it, folder, environment)
        end_daemon(folder)
        if code:
            return f"it ended with {code}\n{said}"
        expected = commands(block.text)[1] if block.language == "console" else []
        if expected and not matches(expected, said, "numbers vary" in block.marks):
            return f"it printed\n{said}"
    return None


def run(pages):
    """Runs the blocks of the pages and tells of each."""
    chosen = [block for page in pages for block in blocks_of(page)]
    build = Build() if any("skip" not in block.marks for block in chosen) else None
    for block in chosen:
        if "skip" in block.marks:
            yield f"SKIP {block}: {block.marks['skip'] or 'no reason'}"
            if not block.marks["skip"]:
                yield f"FAIL {block}: a skip needs a reason"
            continue
        problem = problem_of(build, block)
        if problem is None:
            yield f"PASS {block}"
        else:
            yield f"FAIL {block}\n" + "\n".join(f"  | {line}" for line in problem.split("\n"))
