"""Test programs of Accelerate that need a line before or after them: accelerate_scripts.py NAME.

Before: test_ops does not request the CPU, and without that, ranks without a GPU form no world. After: the last collective of test_sync
is so close to its end, 14 ms, that on a busy machine the process may be aborted: see leave() in tests/frameworks/programs/regression.py.
"""

import importlib
import os
import sys

from accelerate import PartialState

PartialState(cpu=True)
importlib.import_module(f"accelerate.test_utils.scripts.{sys.argv[1]}").main()
sys.stdout.flush()
os._exit(0)
