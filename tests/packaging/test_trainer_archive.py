"""packaging/trainer-archive: what it makes runs for another user, from another folder, with nothing but the C and C++ run times."""
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

import pytest

from common_fixtures import BUILD, SOURCE

pytestmark = [pytest.mark.python, pytest.mark.long]

OF_THE_SYSTEM = {f"lib{name}" for name in ("c.so.6", "m.so.6", "dl.so.2", "rt.so.1", "pthread.so.0", "resolv.so.2", "util.so.1", "stdc++.so.6",
                                           "gcc_s.so.1")} | {"ld-linux-x86-64.so.2"}
OF_NODES = {"libmpi.so.40", "libibverbs.so.1", "librdmacm.so.1", "libmlx5.so.1"}  # opened at run time, where a node has them
# What manylinux_2_34 allows, which is RHEL 9: glibc 2.34, and the libraries of GCC 11.
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0, 0)}
SMALL = ("--data=fake", "--model=resnet20", "--image-size=32", "--batch-size=8", "--log-steps=1", "--progress=lines", "--valid-epochs=0")


@pytest.fixture(scope="module")
def made(launch_archive, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    environment = {**os.environ, "XZ_OPT": "-0"}  # size is not what is tested
    print(subprocess.run([SOURCE / "packaging" / "trainer-archive", f"--build={BUILD}", f"--launch={launch_archive}",
                          f"--output={folder}"], env=environment, check=True,
                         capture_output=True, text=True).stdout)
    return next(folder.glob("rollcall-*-linux-x86_64-cpu.tar.xz"))


@pytest.fixture(scope="module")
def unpacked(made, believed_folder):
    subprocess.run(["tar", "-C", believed_folder, "-xf", made], check=True)
    return believed_folder / made.name.removesuffix(".tar.xz")


@pytest.fixture
def run(unpacked, short_folder):
    """Runs a program of the archive as another user where that can be, in a folder of that user's, with PATH alone."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=short_folder))
    user = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 and shutil.which("runuser") else []
    if user:
        shutil.chown(folder, "nobody")

    def run(*command, **variables):
        variables = {"PATH": f"{unpacked / 'bin'}:/usr/bin:/bin", "HOME": str(folder), "OMP_NUM_THREADS": "1", **variables}
        done = subprocess.run([*user, "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *map(str, command)],
                              cwd=folder, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr
    return run


@pytest.fixture(scope="module")
def readable_digits(digits, short_folder):
    """For another user too."""
    return shutil.copytree(digits / "val", short_folder / "digits")


def elf_files(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"]


def dynamic(path):
    return subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout


def test_members_are_roots_sorted_and_of_one_time(made):
    with tarfile.open(made) as archive:
        members = archive.getmembers()
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, "", "")}
    assert len({member.mtime for member in members}) == 1
    assert [member.name for member in members if not member.issym() and member.mode & 0o022] == []
    names = [member.name for member in members]
    assert names == sorted(names, key=lambda name: name.split("/"))
    assert {name.split("/")[0] for name in names} == {made.name.removesuffix(".tar.xz")}


def test_libraries_are_looked_for_beside_the_programs_alone(unpacked):
    folder = unpacked / "lib" / "rollcall" / "trainer"
    for path in elf_files(unpacked):
        table = dynamic(path)
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", table)) - OF_THE_SYSTEM
        beside = {name for name in needed if (path.parent / name).exists()}
        # Modules of UCX find in its own libraries' names what is loaded already.
        assert needed - beside - {name for name in needed if path.parent == folder / "ucx" and (folder / name).exists()} <= OF_NODES, path
        paths = re.findall(r"\((RUNPATH|RPATH)\).*\[(.*)\]", table)
        assert paths == ([("RUNPATH", "$ORIGIN")] if path.is_relative_to(folder) else []), path


def test_no_file_of_the_archive_names_the_build(unpacked):
    libtorch = re.search(r"^LibTorch_CPU_LIBRARY:\w+=(.*)/torch/lib/", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]
    for path in elf_files(unpacked):
        data = path.read_bytes()
        for folder in (BUILD, SOURCE, libtorch):
            assert re.search(re.escape(str(folder).encode()) + rb"\b", data) is None, f"{path.relative_to(unpacked)} has {folder}"


def test_it_needs_what_rhel_9_has_and_the_page_says(unpacked):
    page = (SOURCE / "docs/administrator/packages.md").read_text().partition("\n## Trainer archive\n")[2]
    for library in ("GLIBC", "GLIBCXX"):
        assert as_numbers(re.search(rf"{library} ([\d.]+)", page, re.I)[1]) == NEWEST[library]
    found = {library: set() for library in NEWEST}
    for path in elf_files(unpacked):
        for name in needed_versions(path):
            library, _, number = name.partition("_")
            if library in NEWEST:
                found[library].add(as_numbers(number))
                assert as_numbers(number) <= NEWEST[library], f"{path.name} needs {name}"
    assert max(found["GLIBC"]) == NEWEST["GLIBC"] and max(found["GLIBCXX"]) == NEWEST["GLIBCXX"], found


def needed_versions(path):
    """All that the loader looks for, whether a symbol uses it or not."""
    table = subprocess.run(["readelf", "-VW", path], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout
    return re.findall(r"Name: (\S+)  Flags", table.partition("'.gnu.version_r'")[2])


def as_numbers(text):
    return tuple(int(part) for part in text.split("."))


@pytest.fixture(scope="module")
def libstdcxx_of_gcc_11(short_folder):
    """The libstdc++.so.6 of GCC 11, as RHEL 9 has it: linked from its own objects."""
    parts = pathlib.Path("/usr/lib/gcc/x86_64-linux-gnu/11")
    if not (parts / "libstdc++_pic.a").exists():
        pytest.skip("the objects of GCC 11's libstdc++ are not installed (package libstdc++-11-pic)")
    library = short_folder / "gcc-11" / "libstdc++.so.6"
    library.parent.mkdir()
    subprocess.run(["gcc", "-shared", "-nodefaultlibs", f"-Wl,-soname,{library.name},--version-script={parts / 'libstdc++_pic.map'}",
                    "-Wl,--whole-archive", parts / "libstdc++_pic.a", "-Wl,--no-whole-archive", "-lm", "-lc", "-lgcc_s", "-lgcc",
                    "-o", library], check=True)
    assert b"GLIBCXX_3.4.29\0" in library.read_bytes() and b"GLIBCXX_3.4.30\0" not in library.read_bytes()
    return library


def pack_train_and_read(run, images, **variables):
    run("rollcall", "pack", images, "digits.h5", **variables)
    out = run("rollcall", "train", *SMALL, "--run-name=small", "--data=digits.h5", "--max-steps=3", **variables)
    assert "progress    step 3 of 3\n" in out
    assert "step-00000003.h5  committed" in run("rollcall-checkpoint", "ls", "rollcall/small/checkpoints", **variables)
    image = min(images.rglob("*.png"))
    predicted = run("rollcall-predict", "rollcall/small/checkpoints/step-00000003.h5", image, **variables)
    assert image.name in predicted


@pytest.mark.parametrize("elsewhere", [False, True], ids=["alone", "with libraries of the same names in LD_LIBRARY_PATH"])
def test_another_user_packs_trains_and_reads_checkpoints(run, readable_digits, short_folder, elsewhere):
    variables = {}
    if elsewhere:
        foreign = short_folder / "foreign"
        foreign.mkdir()
        foreign.chmod(0o755)
        for name in ("libtorch_cpu.so", "libc10.so", "libhdf5_serial.so.103", "libpng16.so.16", "libucp.so.0", "libisal.so.2"):
            (foreign / name).write_bytes(b"no library")
        variables = {"LD_LIBRARY_PATH": str(foreign)}
    pack_train_and_read(run, readable_digits, **variables)


def test_it_runs_with_the_libstdcxx_of_rhel_9(run, readable_digits, libstdcxx_of_gcc_11):
    variables = {"LD_LIBRARY_PATH": str(libstdcxx_of_gcc_11.parent)}
    for program in ("train", "predict", "pack", "checkpoint", "report", "top", "bench-collectives"):
        assert f"libstdc++.so.6 => {libstdcxx_of_gcc_11} " in run(f"rollcall-{program}", LD_TRACE_LOADED_OBJECTS="1", **variables)
        assert run(f"rollcall-{program}", "--version", **variables).startswith(f"rollcall-{program} ")
    pack_train_and_read(run, readable_digits, **variables)


def test_a_training_of_an_older_folder_goes_on_with_the_newer_one(run, unpacked, believed_folder):
    older = shutil.copytree(unpacked, believed_folder / "rollcall-0.0.9-linux-x86_64-cpu", symlinks=True, copy_function=os.link)
    train = ("rollcall-train", *SMALL, "--run-name=older")
    assert "progress    step 2 of 2\n" in run(*train, "--max-steps=2", PATH=f"{older / 'bin'}:/usr/bin:/bin")
    shutil.rmtree(older)
    went_on = run(*train, "--max-steps=4")
    assert "step-00000002.h5" in went_on.partition("resumed from ")[2].partition("\n")[0] and "progress    step 4 of 4\n" in went_on


@pytest.mark.parametrize("backend", ["gloo", "ucx", "mpi"])
def test_two_ranks_train_over_each_backend(run, backend):
    """UCX's modules are opened beside its libraries, the MPI plugin above the program's own file."""
    if not shutil.which("mpirun") or backend == "mpi" and not list(BUILD.glob("lib*/**/rollcall_mpi.so")):
        pytest.skip("Open MPI is not installed (packages openmpi-bin, libopenmpi-dev)")
    out = run("mpirun", "--oversubscribe", "--allow-run-as-root", "-np", "2", "rollcall-train", *SMALL, f"--backend={backend}", "--data=fake",
              "--max-steps=2", UCX_TLS="cma,sm,self,tcp")
    assert "progress    step 2 of 2\n" in out and f"backend {backend}\n" in out


def test_profiles_are_found_above_the_program_behind_the_link(run, unpacked):
    assert f"{unpacked}/share/rollcall/site_config/jedi.toml" in run("rollcall-train", "--print-config", SYSTEMNAME="jedi")
