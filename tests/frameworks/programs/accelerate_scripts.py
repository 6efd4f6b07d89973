"""Accelerate's own test programs that need a line before them, or after: accelerate_scripts.py NAME.

Before: test_ops asks for no device, and without saying so ranks without a GPU are no world. After: the last collective of test_sync is
so near to its end, 14 ms, that on a busy machine the process may be aborted there: see leave() in tests/frameworks/programs/regression.py.
"""

import importlib
import os
import sys

from accelerate import PartialState

PartialState(cpu=True)
importlib.import_module(f"accelerate.test_utils.scripts.{sys.argv[1]}").main()
sys.stdout.flush()
os._exit(0)
