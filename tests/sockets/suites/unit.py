"""Tests of CPython, one line each: unit.py FILE NAME...

A NAME is a module or a test as `unittest` names it. FILE gets a line `ID RESULT` for each test.
A test that takes more than LIMIT seconds ends the run, with all stacks on standard error.
"""
import faulthandler
import importlib
import os
import sys
import unittest

LIMIT = int(os.environ.get("LIMIT", "300"))
# Names of tests that wait for ever on some machines, also natively: a virtual machine may have
# VSOCK sockets without a way to itself.
LEFT_OUT = ("VSOCK",)


class Lines(unittest.TestResult):
    """Writes each result at once, so that a hang loses only one."""

    def __init__(self, out):
        super().__init__()
        self.out = out
        self.current = None

    def startTest(self, test):
        super().startTest(test)
        self.current = "ok"
        print(">", test.id(), file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(LIMIT, exit=True)

    def stopTest(self, test):
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()
        print(test.id(), self.current, file=self.out, flush=True)

    def note(self, test, word, error=None):
        if self.current is None or test.id().startswith(("setUp", "tearDown")):
            print(test.id().replace(" ", "_"), word, file=self.out, flush=True)
        self.current = word
        if error:
            print(self._exc_info_to_string(error, test), file=sys.stderr, flush=True)

    def addError(self, test, err):
        self.note(test, "error", err)

    def addFailure(self, test, err):
        self.note(test, "failed", err)

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, err):
        self.note(test, "ok")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.note(test, "failed", err)


def load(name):
    """The tests of a name. Some installations lack the modules of one start method."""
    start = name.partition("test_multiprocessing_")[2]
    if start in ("fork", "spawn", "forkserver"):
        try:
            importlib.import_module(name)
        except ImportError:
            import test._test_multiprocessing as all_methods

            module = type(sys)(name)
            sys.modules[name] = module
            all_methods.install_tests_in_module_dict(vars(module), start)
            return unittest.defaultTestLoader.loadTestsFromModule(module)
    return unittest.defaultTestLoader.loadTestsFromName(name)


def tests_of(suite):
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from tests_of(each)
        elif not any(word in each.id() for word in LEFT_OUT):
            yield each


def main():
    faulthandler.enable()
    result = None
    with open(sys.argv[1], "a", buffering=1) as out:
        result = Lines(out)
        for name in sys.argv[2:]:
            try:
                suite = unittest.TestSuite(tests_of(load(name)))
            except unittest.SkipTest:
                print(name, "skipped", file=out)
                continue
            suite.run(result)


if __name__ == "__main__":
    main()
