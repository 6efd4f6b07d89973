"""Where the tests find what they test, also where pytest is started by hand."""
import os
import pathlib

pytest_plugins = ["common_fixtures"]  # tests/support/common_fixtures.py
ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ.setdefault("ROLLCALL_SOURCE_DIR", str(ROOT))
os.environ.setdefault("ROLLCALL_BUILD_DIR", str(ROOT / "build" / "release"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
