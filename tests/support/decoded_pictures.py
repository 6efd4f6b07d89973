"""Made-up photos, and what rollcall makes of pictures (tests/support/transform_dump.cpp)."""
import functools
import os
import pathlib
import subprocess

import numpy as np
from PIL import Image

BUILD = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build/release"))


@functools.cache
def program():
    """One for all tests of this process, with which it ends."""
    return subprocess.Popen([BUILD / "tests/transform_dump"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def run(*arguments):
    process = program()
    process.stdin.write("\t".join(map(str, arguments)).encode() + b"\n")
    process.stdin.flush()
    sizes = process.stdout.readline()
    if not sizes:  # it crashed: the next test has another one
        program.cache_clear()
        return subprocess.CompletedProcess(arguments, process.wait(), b"", b"transform_dump ended before it answered")
    code, out, errors = map(int, sizes.split())
    return subprocess.CompletedProcess(arguments, code, process.stdout.read(out), process.stdout.read(errors))


def dump(dtype, *arguments):
    done = run(*arguments)
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, dtype)


def refusal(path):
    done = run("decode", path)
    assert done.returncode == 65 and done.stdout == b"", done
    return done.stderr.decode()


def photo(seed, mode="RGB", size=None):
    """Smooth shapes with noise on top, of a random size."""
    random = np.random.default_rng(seed)
    width, height = size or random.integers(40, 500, 2)
    small = random.integers(0, 256, (7, 9, 4), dtype=np.uint8)
    array = np.asarray(Image.fromarray(small, "RGBA").resize((width, height), Image.BICUBIC)).astype(int)
    array = np.clip(array + random.normal(0, 12, array.shape), 0, 255).astype(np.uint8)
    if mode == "CMYK":
        return Image.fromarray(array, "CMYK")
    return Image.fromarray(array, "RGBA").convert(mode)
