"""What is carried to a machine with a GPU: programs, plugin and the libraries that it may lack; see scripts/gpu-check."""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib

PROGRAMS = ["rollcall-train", "rollcall-bench-collectives", "rollcall-checkpoint", "rollcall-pack", "rollcall"]
PLUGINS = ["rollcall_cuda"]
# Test programs of this name come along, and are run there; so is what measures cuDNN, where it can be built.
TESTS = re.compile(r"^(\w+_gpu_test|cudnn_graph):", re.M)
# What such a machine may accept in all, with the repository's own files.
LIMIT_MIB = 64
# Debian 12's, as in the images that have LibTorch of these versions.
NEWEST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30)}
# What that machine has: the C and C++ run time, LibTorch and what comes with it.
THERE = re.compile(r"^(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s)\.so"
                   r"|lib(torch|c10|cuda|cudart|cudnn|cublas|cufft|cufile|cupti|curand|cusolver|cusparse|nv|nccl))")
IMAGES, CLASSES, PIXELS = 320, 10, 64


class Refused(Exception):
    pass


def make(root, folder, torch, data_only):
    build = root / "build" / "gpu"
    try:
        refuse_what_is_no_bundle(folder)
        if not data_only:
            programs, plugins = compile_all(root, build, torch)
            shutil.rmtree(folder, ignore_errors=True)
            copy(programs, plugins, build, folder)
            (folder / "bundle.json").write_text(json.dumps({"torch": torch, "commit": commit(root)}) + "\n")
        pack_images(build / "trainer" / "rollcall-pack", folder / "images.h5")
        size = check(folder, LIMIT_MIB - repository_mib(root))
    except (Refused, OSError, subprocess.CalledProcessError) as error:
        print(f"rollcall: gpu-check: {error}", file=sys.stderr)
        return 1
    print(f"gpu-check: {folder}: {size:.1f} MiB, for LibTorch {torch}")
    return 0


def refuse_what_is_no_bundle(folder):
    """It is made anew: nobody's other files are to go with it."""
    if folder.exists() and not (folder / "bundle.json").is_file() and any(folder.iterdir()):
        raise Refused(f"--bundle: {folder}: is not a bundle and not empty; try naming another folder")


def commit(root):
    return subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False).stdout.strip()


def compile_all(root, build, torch):
    setup = [root / "scripts" / "setup", f"--torch={torch}"]
    subprocess.run([*setup, "--build"], check=True)
    libtorch = subprocess.run([*setup, "--print-libtorch"], check=True, capture_output=True, text=True).stdout.strip()
    # What one build folder compiled, ccache has for the others.
    environment = {"CCACHE_BASEDIR": str(root), "CCACHE_NOHASHDIR": "1", **os.environ}
    # Found anew: what the folder remembers may be another version's.
    forgotten = [word for names in ("LibTorch_*", "CUDNN_*", "CUDART_*") for word in ("-U", names)]
    configured = subprocess.run(["cmake", "--preset", "gpu", *forgotten, f"-DLibTorch_ROOT={libtorch}"], cwd=root, check=False,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if configured.returncode != 0:
        raise Refused(f"{configured.stderr.strip()}\ntry scripts/setup --torch={torch} --cuda, which installs NCCL's header")
    known = subprocess.run(["cmake", "--build", build, "--target", "help"], check=True, capture_output=True, text=True).stdout
    tests = sorted(set(TESTS.findall(known)))
    subprocess.run(["cmake", "--build", build, "--target", *PROGRAMS, *PLUGINS, *tests], check=True, env=environment)
    programs = [next(path for path in build.rglob(name) if path.is_file() and os.access(path, os.X_OK)) for name in [*PROGRAMS, *tests]]
    return programs, [next(build.rglob(f"{name}.so")) for name in PLUGINS]


def copy(programs, plugins, build, folder):
    (folder / "lib").mkdir(parents=True)
    for files, place in ((programs, "bin"), (plugins, plugins[0].parent.relative_to(build))):
        (folder / place).mkdir(parents=True)
        for file in files:
            subprocess.run(["strip", "-o", folder / place / file.name, file], check=True)
    for library in sorted(libraries([*programs, *plugins])):
        shutil.copy(library, folder / "lib")  # the file, under the name that the loader asks for


def libraries(files):
    """Paths of what the loader would open for `files`, but for what is there."""
    text = subprocess.run(["ldd", *files], check=True, capture_output=True, text=True).stdout
    return needed(text)


def needed(ldd):
    found = dict(re.findall(r"^\s+(\S+) => (\S+|not found)", ldd, re.M))
    carried = {name: path for name, path in found.items() if not THERE.match(name) and "/torch/lib/" not in path}
    if missing := [name for name, path in carried.items() if not path.startswith("/")]:
        raise Refused(f"{', '.join(sorted(missing))}: not found on this machine, so nothing can be carried; try scripts/setup --build")
    return set(carried.values())


def repository_mib(root):
    """What goes along: all files but those that git ignores, as the bundle is."""
    names = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True,
                           capture_output=True, text=True).stdout.split("\0")
    return mib(root / name for name in names)


def mib(paths):
    return sum(path.stat().st_size for path in paths if path.is_file()) / 2**20


def check(folder, limit):
    """MiB of all; what the other machine could not open is refused."""
    size = mib(folder.rglob("*"))
    if size > limit:
        raise Refused(f"{folder}: {size:.1f} MiB are more than the {limit:.1f} that the repository leaves of {LIMIT_MIB}; "
                      "try carrying fewer programs")
    for path in [*folder.glob("bin/*"), *folder.rglob("*.so*")]:
        text = subprocess.run(["objdump", "-T", path], check=True, capture_output=True, text=True).stdout
        if symbols := too_new(text):
            raise Refused(f"{path.name}: needs {', '.join(symbols)}, newer than that machine has; try building on Debian 12")
    return size


def too_new(objdump):
    """Undefined symbols of versions of glibc or libstdc++ above NEWEST."""
    symbols = []
    for library, version, symbol in re.findall(r"\*UND\*\s+\S+\s+\(?(GLIBC|GLIBCXX)_([\d.]+)\)?\s+(\S+)", objdump):
        if tuple(int(part) for part in version.split(".")) > NEWEST[library]:
            symbols.append(f"{symbol} ({library}_{version})")
    return symbols


def pack_images(pack, out):
    if not pack.is_file():
        raise Refused(f"{pack}: is not built yet; try leaving out --data-only")
    tree = out.with_suffix(".tree")
    for number in range(IMAGES):
        path = tree / f"class_{number % CLASSES}" / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(number))
    subprocess.run([pack, "--overwrite", "--progress=none", tree, out], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)


def png(number):
    """Waves whose direction is the class's and whose phase is the picture's, in colour."""
    angle, phase = math.pi * (number % CLASSES) / CLASSES, number
    along = [(math.cos(angle) * i / 5, math.sin(angle) * i / 5) for i in range(PIXELS)]
    rows = b"".join(b"\0" + bytes(int(127 * (1 + math.sin(along[x][0] + along[y][1] + phase + channel)))
                                  for x in range(PIXELS) for channel in range(3)) for y in range(PIXELS))
    header = struct.pack(">IIBBBBB", PIXELS, PIXELS, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks)
