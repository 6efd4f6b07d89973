"""Compiles all programs' files that include LibTorch with the headers of another version of it, and keeps nothing of that: whether one
source serves both shows without a second build.

usage: check_libtorch.py LIBTORCH FOLDER COMPILE_COMMANDS...

LIBTORCH has that version's include/; COMPILE_COMMANDS are compile_commands.json of configured builds; a file that several of them
compile is compiled once. FOLDER takes the precompiled header. Exit code 1: something does not compile.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

HEADER = "trainer/torch.h"  # what the builds precompile
SHARED = ("USE_DISTRIBUTED", "USE_C10D_GLOO")  # macros that all have


def main(libtorch, folder, *databases):
    commands = {}
    for database in databases:
        for entry in json.loads(pathlib.Path(database).read_text()):
            if includes_libtorch(entry) and not entry["file"].endswith((".cu", ".hxx.cxx")) and not is_test(entry):
                commands.setdefault(identity(entry), with_libtorch(entry, libtorch))
    if not commands:
        print("cuda-check: LibTorch: skipped: none of the compilations includes it from a folder torch/include")
        return 0
    header = precompiled(next(iter(commands.values())), pathlib.Path(folder))
    jobs = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(lambda command: compiles(command, header), commands.values()))
    version = re.search(r"__version__ = '([^']+)'", pathlib.Path(libtorch, "version.py").read_text()).group(1)
    print(f"cuda-check: {sum(outcomes)} of {len(outcomes)} compilations pass with LibTorch {version}, too")
    return 0 if all(outcomes) else 1


def includes_libtorch(entry):
    """Whether a folder of headers is LibTorch's; every command names that folder, in an option that keeps it out of texts."""
    return any(of_libtorch(word, "") != word for word in shlex.split(entry["command"]))


def is_test(entry):
    """Tests and benchmarks run with the newest LibTorch alone."""
    return bool(re.search(r"/(tests|benchmarks)/", entry["file"]))


def identity(entry):
    """A unity file goes by what it includes, whose paths are those of the sources."""
    file = pathlib.Path(entry["file"])
    return file.read_text() if "/Unity/" in entry["file"] else str(file)


def with_libtorch(entry, libtorch):
    """The command without its output and its precompiled header."""
    kept = []
    skip = False
    for word in shlex.split(entry["command"]):
        if skip or word in ("-c", "-Winvalid-pch") or word.endswith("ccache"):
            skip = False
        elif word in ("-o", "-include"):
            skip = True
        else:
            kept.append(of_libtorch(word, libtorch))
    return {"words": kept, "directory": entry["directory"]}


def of_libtorch(word, libtorch):
    """A folder of headers, after -I or by itself; other words are as they were."""
    found = re.fullmatch(r"(-I|-isystem)?(?:/.*?)?/torch/include(/.*)?", word)
    return f"{found[1] or ''}{libtorch}/include{found[2] or ''}" if found else word


def precompiled(command, folder):
    """FOLDER/torch.h, whose precompiled form lies beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    header = folder.resolve() / "torch.h"
    header.write_text(f'#include "{HEADER}"\n')
    options = [word for word in command["words"][:-1] if not word.startswith("-D") or word[2:] in SHARED]
    subprocess.run([*options, "-x", "c++-header", str(header), "-o", f"{header}.gch"], cwd=command["directory"], check=True)
    return header


def compiles(command, header):
    # Where the macros or options of a file are others than the header's, g++ reads the header itself.
    words = [*command["words"][:-1], "-Wno-invalid-pch", "-include", str(header), "-fsyntax-only", command["words"][-1]]
    return subprocess.run(words, cwd=command["directory"], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
