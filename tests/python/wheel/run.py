"""Runs pytest, which lies in another environment, in the clean environment of the wheel."""
import os
import sys

sys.path.append(os.environ["M3_TOOLS"])
import pytest  # noqa: E402

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
