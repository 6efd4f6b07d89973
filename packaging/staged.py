"""An installation with the libraries that it needs beside its programs: what the trainer's archive and the wheel hold."""
import datetime
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The C and C++ run times, which are the system's. What else a program opens by itself, such as MPI, is not looked at.
OF_THE_SYSTEM = re.compile(r"(ld-linux-x86-64|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so\.\d+")
LICENCES = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|EULA)", re.I)
# The one symbol that files here need of GCC 12's libstdc++. Older ones have it under an older version, and newer ones have both:
# they differ in what pthread_cancel() does to it. Each version as a file names it: its text, and its hash with no flags.
WAIT = "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"
OF_GCC_12 = (b"\0GLIBCXX_3.4.30\0", 0x297F840.to_bytes(4, "little") + b"\0\0")
OF_GCC_4 = (b"\0GLIBCXX_3.4.11\0", 0x297F861.to_bytes(4, "little") + b"\0\0")


class Refused(Exception):
    """A message for the user."""


@functools.cache
def environment():
    """With the tools of the Python that scripts/setup installed before those of PATH."""
    python = subprocess.run([ROOT / "scripts" / "setup", "--print-python"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {**os.environ, "PATH": f"{pathlib.Path(python).parent}:{os.environ['PATH']}", "LC_ALL": "C"}


def run(*command, **options):
    """Returns what the command prints."""
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment(), **options).stdout
    except FileNotFoundError as error:
        raise Refused(f"{error.filename}: is not installed; try scripts/setup --all") from error
    except subprocess.CalledProcessError as error:
        raise Refused(f"{pathlib.Path(command[0]).name}: ended with {error.returncode}; try reading its messages above") from error


def version():
    return re.search(r"^project\(rollcall VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


def source_date():
    """Seconds since 1970 that files get: SOURCE_DATE_EPOCH, else the release's date."""
    date = re.search(r"^set\(ROLLCALL_RELEASE_DATE ([\d-]+)\)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
    midnight = datetime.datetime.fromisoformat(date).replace(tzinfo=datetime.UTC)
    return int(os.environ.get("SOURCE_DATE_EPOCH") or midnight.timestamp())


def install_trainer(build, prefix):
    """From the build folder, which has to be of the CPU: a device's libraries are gigabytes."""
    if not (build / "CMakeCache.txt").is_file():
        raise Refused(f"--build: {build}: is not a build folder; try cmake --preset release")
    if not re.search(r"^ROLLCALL_CUDA:BOOL=OFF", (build / "CMakeCache.txt").read_text(), re.M):
        raise Refused(f"--build: {build}: has ROLLCALL_CUDA=ON; try a build of preset release")
    for component in ("trainer", "tools", "doc"):
        run("cmake", "--install", build, "--strip", "--component", component, "--prefix", prefix, stderr=subprocess.DEVNULL)
    for file in elf_files(prefix):
        take_older_libstdcxx(file)


def take_older_libstdcxx(file):
    """Has the loader accept a libstdc++ without what GCC 12 added, such as RHEL 9's, where the file uses WAIT alone of that. patchelf
    could let go of the symbol's version, but not of the file's need of it."""
    data = file.read_bytes()
    if OF_GCC_12[0] not in data or set(re.findall(r"GLIBCXX_3\.4\.30\)? +(\S+)", run("objdump", "-T", file))) != {WAIT}:
        return
    for newer, older in zip(OF_GCC_12, OF_GCC_4, strict=True):
        if data.count(newer) != 1:
            raise Refused(f"{file}: has the name or hash of GLIBCXX_3.4.30 {data.count(newer)} times, not once; try packaging on Debian 12")
        data = data.replace(newer, older)
    file.write_bytes(data)


def install_launcher(archive, prefix):
    """From the launch archive, whose `rollcall` and plugins need an older glibc than those of a build."""
    if not archive.is_file():
        raise Refused(f"--launch: {archive}: does not exist; try packaging/launch-archive")
    run("tar", "--no-same-owner", "--strip-components=1", "-C", prefix, "-xf", archive)


def elf_files(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink() and is_elf(path)]


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(files, left):
    """Names and paths of what the loader opens for the files, but for what is left to the system."""
    found = dict(re.findall(r"^\s+(\S+) => (\S+|not found)", run("ldd", *files), re.M))
    kept = {name: pathlib.Path(path) for name, path in found.items() if not OF_THE_SYSTEM.fullmatch(name) and name not in left}
    if missing := sorted(name for name, path in kept.items() if not path.is_absolute()):
        raise Refused(f"{', '.join(missing)}: not found on this machine; try scripts/setup --build")
    return kept


def bundle(folder, run_path="$ORIGIN", left=()):
    """Copies the libraries that the programs in `folder` need beside them, and sets everybody's RUNPATH. `left`: names of libraries
    that `run_path` finds elsewhere. Returns the paths of what was copied.

    A copy gets a name of its own, with a part of its checksum, as auditwheel's do: a library of another version in
    LD_LIBRARY_PATH, which goes before RUNPATH, is not taken for it.
    """
    libraries = needed(elf_files(folder), left)
    names = {}
    for name, path in libraries.items():
        stem, ending = name.split(".", 1)
        names[name] = f"{stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.{ending}"
        copy(path, folder / names[name])
    modules = ucx_modules(libraries)
    for module in modules:
        copy(module, folder / "ucx" / module.name)
    for file in elf_files(folder):
        own = [option for name in libraries if names[name] == file.name for option in ("--set-soname", file.name)]
        others = [option for name in names for option in ("--replace-needed", name, names[name])]
        run("patchelf", *own, *others, "--set-rpath", run_path if file.parent == folder else "$ORIGIN", file)
    return [*libraries.values(), *modules]


def copy(path, to):
    to.parent.mkdir(exist_ok=True)
    shutil.copyfile(path, to)
    to.chmod(0o644)
    take_older_libstdcxx(to)


def ucx_modules(libraries):
    """UCX opens its transports by itself, in the folder ucx beside libucs."""
    return sorted(libraries["libucs.so.0"].resolve().parent.glob("ucx/*.so.0")) if "libucs.so.0" in libraries else []


def copy_licences(libraries, folder):
    """Those of the Debian package or the wheel that each library is from, as far as these have any."""
    paths = [library.resolve() for library in libraries]
    packages = packages_of(paths)
    for path in paths:
        texts, package = licences_of_wheel(path) if "site-packages" in path.parts else licences_of_package(packages.get(path.name, ""))
        for text in texts:
            inside = "/".join(text.parts[text.parts.index("licenses") + 1:]) if "licenses" in text.parts else text.name
            target = folder / package / inside.replace("/", "-")  # two files of a wheel may have one name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(text, target)


def packages_of(paths):
    """The Debian packages by the names of files, asked at once, since dpkg reads the lists of all packages for each question."""
    known = subprocess.run(["dpkg-query", "-S", *(f"*/{path.name}" for path in paths)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           text=True, check=False)
    return {pathlib.Path(file).name: package for package, file in re.findall(r"^([^:,\s]+).*: (/.*)$", known.stdout, re.M)}


def licences_of_package(package):
    return [text for text in [pathlib.Path("/usr/share/doc", package, "copyright")] if package and text.is_file()], package


def licences_of_wheel(path):
    site = next(parent for parent in path.parents if parent.name == "site-packages")
    for record in site.glob("*.dist-info/RECORD"):
        if f"\n{path.relative_to(site)}," in record.read_text():
            texts = [text for text in record.parent.rglob("*") if text.is_file() and LICENCES.match(text.name)]
            return texts, record.parent.name.partition("-")[0]
    return [], ""


def newest_symbols(folder):
    """The newest version that a file in `folder` needs of each of glibc, libstdc++ and libgcc, with the file's name."""
    newest = {}
    for file in elf_files(folder):
        needs = run("readelf", "-VW", file).partition("'.gnu.version_r'")[2]
        for library, number in re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+) ", needs):
            parts = tuple(int(part) for part in number.split("."))
            newest[library] = max(newest.get(library, ((), "")), (parts, file.name))
    return {library: (".".join(map(str, parts)), name) for library, (parts, name) in sorted(newest.items())}


def main(document, make):
    """Runs make(build, launch, output) with the arguments of a packaging script, whose help is `document`."""
    packages = ROOT / "build" / "packages"
    paths = {"--build": ROOT / "build" / "release", "--launch": packages / f"rollcall-launch-{version()}-linux-x86_64.tar.xz",
             "--output": packages}
    for argument in sys.argv[1:]:
        name, _, value = argument.partition("=")
        if name not in paths or not value:
            print(document, end="", file=sys.stdout if name in ("-h", "--help") else sys.stderr)
            return 0 if name in ("-h", "--help") else 64
        paths[name] = pathlib.Path(value).resolve()
    try:
        paths["--output"].mkdir(parents=True, exist_ok=True)
        make(*paths.values())
    except (Refused, OSError) as error:
        print(f"rollcall: {pathlib.Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 69
    return 0
