"""Checks of the pages themselves: links, width, names of tests and functions, the site."""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 100
# A page of the site names files of the repository by this address.
FORGE = "https://github.com/m3ipc/m3ipc/blob/main/"
FOLDERS = r"(crates|lab|tests|xtask|fuzz|examples|docs)/"
FOLDERS_IN_CODE = r"`((?:crates|lab|tests|xtask|fuzz|examples|docs)/[^`]+)`"
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
REFERENCE = re.compile(r"^\[[^\]]+\]: (\S+)$", re.M)


def all_pages():
    """The Markdown files under version control, from the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(page for page in listed.stdout.split("\n") if page and (ROOT / page).exists())


def text_of(page):
    """The text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def without_code(text):
    """The text without fenced blocks and inline code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`]*`", "", text)


def anchors(text):
    """The anchors of a page's headings, as forges and mdBook make them."""
    found = set()
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for heading in re.findall(r"^#+ (.+)$", text, re.M):
        heading = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(heading.replace(" ", "-"))
    return found


def links():
    """Links that lead nowhere: files, anchors, and files named by the forge's address."""
    problems = []
    for page in all_pages():
        text = without_code(text_of(page))
        for target in LINK.findall(text) + REFERENCE.findall(text):
            if target.startswith(FORGE):
                if not (ROOT / target.removeprefix(FORGE).split("#")[0]).exists():
                    problems.append(f"{page}: no file for {target}")
                continue
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = ((ROOT / page).parent / path).resolve() if path else ROOT / page
            if not file.exists():
                problems.append(f"{page}: no file for {target}")
            elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
                problems.append(f"{page}: no heading for {target}")
    return problems


def site_links():
    """Links of the site's pages that leave the folder of the site."""
    problems = []
    for page in all_pages():
        if page.startswith("docs/"):
            for target in LINK.findall(without_code(text_of(page))):
                path = target.partition("#")[0]
                if not re.match(r"[a-z]+:", target) and path and \
                        not ((ROOT / page).parent / path).resolve().is_relative_to(ROOT / "docs"):
                    problems.append(f"{page}: {target} leaves the site; use {FORGE}...")
    return problems


def width():
    """Lines beyond the width; tables, lines that are one link, and output are excepted."""
    problems = []
    for page in all_pages():
        fence = ""
        for number, line in enumerate(text_of(page).split("\n"), 1):
            if line.startswith("```"):
                fence = "" if fence else line[3:].strip() or "none"
            excepted = line.lstrip().startswith("|") or "://" in line or fence == "text"
            if len(line) > WIDTH and not excepted:
                problems.append(f"{page}:{number}: {len(line)} columns")
    return problems


def sources():
    """The sources of the tree, by path."""
    listed = subprocess.run(["git", "ls-files", "*.rs", "*.c", "*.h", "*.sh", "*.py"],
                            cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [path for path in listed.stdout.split("\n") if path and (ROOT / path).exists()]
    return {path: (ROOT / path).read_text(encoding="utf-8", errors="replace") for path in paths}


def names_of_tests():
    """Tests and paths that the claims of the caveats and of the threat model name in vain."""
    known = "\n".join(sources().values())
    caveats = re.findall(FOLDERS_IN_CODE, text_of("CAVEATS.md"))
    problems = [f"CAVEATS.md: there is no {path}" for path in caveats if not (ROOT / path).exists()]
    page, column = "docs/threat-model.md", None
    for line in text_of(page).split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            column = None
        elif cells[-1] == "test":
            column = len(cells) - 1
        elif column is not None and len(cells) > column:
            for name in re.findall(r"`([^`]+)`", cells[column]):
                found = (ROOT / name).exists() if "/" in name else f"fn {name}(" in known
                if not found:
                    problems.append(f"{page}: there is no {name}")
    return problems


def names_of_functions():
    """Paths in `code`, and `name()` beside the path of its file, in the map."""
    problems = []
    known = sources()
    for number, line in enumerate(text_of("docs/map.md").split("\n"), 1):
        codes = re.findall(r"`([^`]+)`", line)
        paths = [code for code in codes if re.match(FOLDERS, code)]
        for path in paths:
            if not (ROOT / path).exists():
                problems.append(f"docs/map.md:{number}: there is no {path}")
        texts = [text for path, text in known.items()
                 if any(path == named or path.startswith(named + "/") for named in paths)]
        for name in re.findall(r"`(?:\w+::)?(\w+)\(\)`", line):
            if not any(re.search(rf"\bfn {name}\b", text) for text in texts):
                there = ", ".join(paths) or "no file"
                problems.append(f"docs/map.md:{number}: no fn {name} in {there}")
    return problems


def glossary():
    """Folders in the glossary that do not exist."""
    named = set(re.findall(FOLDERS_IN_CODE, text_of("docs/glossary.md")))
    return [f"docs/glossary.md: there is no {path}" for path in sorted(named)
            if not (ROOT / path).exists()]


def summary():
    """Pages of the site that its table of contents does not name."""
    named = set(LINK.findall(text_of("docs/SUMMARY.md")))
    return [f"{page} is not in docs/SUMMARY.md" for page in all_pages()
            if page.startswith("docs/") and page != "docs/SUMMARY.md"
            and page.removeprefix("docs/") not in named]


def site():
    """Warnings and errors of mdBook."""
    mdbook = shutil.which("mdbook") or os.path.expanduser("~/.cargo/bin/mdbook")
    if not Path(mdbook).exists():
        print("SKIP the site: mdbook is not installed (cargo install mdbook)")
        return []
    with tempfile.TemporaryDirectory() as folder:
        built = subprocess.run([mdbook, "build", "docs", "--dest-dir", folder],
                               cwd=ROOT, capture_output=True, text=True)
    said = (built.stdout + built.stderr).strip().split("\n")
    if built.returncode:
        return said
    return [line for line in said if re.search(r"\b(WARN|ERROR)\b", line)]


CHECKS = [
    links, site_links, width, names_of_tests, names_of_functions, glossary, summary, site,
]


def checks():
    """Each check with its problems."""
    for check in CHECKS:
        yield check.__name__.replace("_", " "), check()
