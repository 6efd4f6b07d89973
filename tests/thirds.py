"""Which long tests and further stages one of three runs of continuous integration takes, so that three in a row take all of them.

usage: tests/thirds.py BUILD-FOLDER THIRD     prints the names of the stages, in a second line the names of the tests as `ctest -R`
                                              takes them, and in a third line what the two other thirds take
"""
import json
import re
import subprocess
import sys
import zlib

# Of scripts/test, shared out by hand. Each third takes its own of every three files that clang-tidy reads.
STAGES = {"asan-torch": [1], "asan": [3], "tsan": [3], "clang-tidy": [1, 2, 3], "cuda-check": [2], "fuzz": [2], "benchmarks": [2]}
# Of a hundred long tests: the longer its stages take, the fewer.
SHARES = {1: 33, 2: 27, 3: 40}


def long_tests(build):
    listed = json.loads(subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, capture_output=True, text=True, check=True).stdout)
    labels = {test["name"]: [value for entry in test.get("properties", []) if entry["name"] == "LABELS" for value in entry["value"]]
              for test in listed["tests"]}
    return sorted(name for name, of_it in labels.items() if "long" in of_it)


def third_of(name):
    """By its name alone, so that a test that comes or goes moves no other one."""
    drawn = zlib.crc32(name.encode()) % 100
    return 1 if drawn < SHARES[1] else 2 if drawn < SHARES[1] + SHARES[2] else 3


def main(build, third):
    tests = long_tests(build)
    others = [stage for stage, its in STAGES.items() if its != [third]], [name for name in tests if third_of(name) != third]
    print(*(stage for stage, its in STAGES.items() if third in its))
    print("^(" + "|".join(re.escape(name) for name in tests if third_of(name) == third) + ")$")
    print(f"left out: {', '.join(others[0])}; {len(others[1])} long tests: {', '.join(others[1])}")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in ("1", "2", "3"):
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]))
