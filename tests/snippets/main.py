"""Runs every check of the pages and prints `N passed, N failed`."""
import sys

import blocks
import pages


def main():
    """Checks the pages first: they need no build."""
    if sys.argv[1:2] == ["--write"]:
        blocks.write_files(pages.all_pages())
        return 0
    wanted = sys.argv[1:]
    failed = passed = 0
    for name, problems in pages.checks():
        if problems:
            failed += 1
            print(f"FAIL {name}")
            for problem in problems:
                print(f"  | {problem}")
        else:
            passed += 1
            print(f"PASS {name}")
        sys.stdout.flush()
    chosen = [page for page in pages.all_pages() if not wanted or page in wanted]
    for line in blocks.run(chosen):
        passed += line.startswith("PASS ")
        failed += line.startswith("FAIL ")
        print(line, flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
