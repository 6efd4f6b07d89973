"""packaging/launch-archive: one file that runs where glibc is 2.28 or newer, with a plugin for each Slurm that is here."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from minicluster import SOURCE, Minicluster, check_world, clean_environment, rollcall_lines
from plugin_rules import NEWEST_GLIBC, broken_rules, symbols, table

pytestmark = [pytest.mark.slurm, pytest.mark.long]
SUITES = {"": "22.05", "trixie": "24.11", "forky": "26.05"}
OF_THE_C_LIBRARY = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}


def slurm_root(suite):
    root = subprocess.run([SOURCE / "scripts" / "second-slurm", f"--suite={suite}", "--print-root"], capture_output=True, text=True, check=True)
    return pathlib.Path(root.stdout.strip())


@pytest.fixture(scope="module")
def unpacked(launch_archive, believed_folder):
    """The archive's folder, root's."""
    subprocess.run(["tar", "-C", believed_folder, "-xf", launch_archive], check=True)
    return believed_folder / launch_archive.name.removesuffix(".tar.xz")


def elf_files(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.open("rb").read(4) == b"\x7fELF"]


def test_what_it_holds(unpacked):
    plugins = {path.parent.name for path in unpacked.glob("lib/rollcall/*/spank_rollcall.so")}
    assert plugins >= {f"slurm-{version}" for suite, version in SUITES.items() if not suite or slurm_root(suite).exists()}
    for name in ("share/rollcall/site_config/generic.toml", "share/rollcall/sbatch_templates/run.sbatch", "share/man/man1/rollcall.1",
                 "share/man/man8/rollcall-spank.8", "share/doc/rollcall/LICENSE"):
        assert (unpacked / name).is_file(), name
    licences = {path.name for path in (unpacked / "share/doc/rollcall/licences").iterdir()}
    assert licences == {"libfmt", "libtomlplusplus", "nlohmann-json3", "libsodium", "zlib1g", "libc++", "glibc"}
    for path in unpacked.rglob("*"):
        # Each program's completion is a link to rollcall's, in the same folder.
        assert "/" not in str(path.readlink()) if path.is_symlink() else path.lstat().st_mode & 0o7022 == 0, path


def test_programs_need_a_c_library_of_2018_and_no_other(unpacked):
    for path in elf_files(unpacked):
        versions = {version for _, version, defined, _ in symbols(path) if version and not defined}
        numbers = [tuple(map(int, version.removeprefix("GLIBC_").split("."))) for version in versions]
        assert max(numbers) <= NEWEST_GLIBC, f"{path.name}: {versions}"
        dynamic = table("readelf", "-d", path)
        assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)) <= OF_THE_C_LIBRARY and "PATH" not in dynamic, path.name


def test_the_program_is_hardened(unpacked):
    program = unpacked / "bin" / "rollcall"
    assert "BIND_NOW" in table("readelf", "-d", program) and "GNU_RELRO" in table("readelf", "-lW", program)
    assert "Type: DYN" in " ".join(table("readelf", "-h", program).split()) and ".symtab" not in table("readelf", "-SW", program)


def test_the_plugins_keep_the_rules_of_one_that_is_built_here(unpacked):
    for path in unpacked.glob("lib/rollcall/*/spank_rollcall.so"):
        assert broken_rules(path) == [], path


def test_no_file_has_a_path_of_this_machine(unpacked):
    deps = os.environ.get("ROLLCALL_DEPS", str(pathlib.Path.home() / ".cache"))
    for path in (path for path in unpacked.rglob("*") if path.is_file()):
        data = path.read_bytes()
        for folder in (str(SOURCE), deps, "ziglang/", "sysroot"):
            assert folder.encode() not in data, f"{path.relative_to(unpacked)} has {folder}"


def test_another_user_unpacks_it_and_runs_it_by_path_alone(launch_archive, short_folder):
    if os.geteuid() != 0 or shutil.which("runuser") is None:
        pytest.skip("only root can be another user")
    home = short_folder / "a home"
    home.mkdir()
    shutil.copy(launch_archive, home)
    for path in (home, home / launch_archive.name):
        shutil.chown(path, "nobody")
    prefix = home / launch_archive.name.removesuffix(".tar.xz")

    def as_nobody(*command):
        environment = ("env", "-i", f"HOME={home}", f"PATH={prefix / 'bin'}:/usr/bin:/bin")
        return subprocess.run(["runuser", "-u", "nobody", "--", *environment, *command], cwd=home, text=True, capture_output=True)

    assert as_nobody("tar", "-xf", launch_archive.name).returncode == 0
    assert (prefix / "bin" / "rollcall").owner() == "nobody"
    assert as_nobody("rollcall", "--version").stdout.startswith("rollcall ")
    started = as_nobody("rollcall", "run", "--nproc-per-node=2", "--no-python", "/bin/sh", "-c", "echo $RANK of $WORLD_SIZE")
    assert started.returncode == 0 and sorted(started.stdout.split("\n")[:2]) == ["0 of 2", "1 of 2"], started.stderr
    assert as_nobody("rollcall", "exec", "--", "echo", "started").stdout == "started\n"
    doctor = as_nobody("rollcall", "doctor", "--no-bench")
    assert doctor.stdout.strip() and "Traceback" not in doctor.stderr and doctor.returncode in (0, 69), doctor.stderr


@pytest.mark.parametrize("suite", SUITES)
def test_a_site_gets_the_plugin_for_its_slurm(unpacked, believed_folder, suite):
    if suite and not (slurm_root(suite) / "bin" / "slurmd").exists():
        pytest.skip(f"the Slurm of {suite} is not here (scripts/second-slurm)")
    if pathlib.Path("/etc/rollcall/site.toml").exists():
        pytest.skip("this machine has a profile of its own")
    if os.geteuid() != 0:
        pytest.skip("only root's files are trusted")
    older = shutil.copytree(unpacked, believed_folder / f"older{suite}", symlinks=True)
    for plugin in older.glob("lib/rollcall/*/spank_rollcall.so"):
        plugin.write_bytes(plugin.read_bytes() + b"older")  # another checksum
    made = Minicluster(believed_folder / f"c{suite}", f"--slurm={suite}", "--nodes=2").start()
    try:
        step_with(made, older, SUITES[suite])
        step_with(made, unpacked, SUITES[suite])  # an upgrade
        shutil.rmtree(older)
        step(made)
        made.run(unpacked / "bin" / "rollcall", "uninstall", "--site", f"--slurm-conf={made.folder}/etc/slurm.conf")
        refused = made.run("srun", "--ddp", "true", check=False)
        assert "unrecognized option '--ddp'" in refused.stderr
    finally:
        made.stop()


def step_with(made, installation, version):
    """`install --site` of this installation switches the plugin on that a step then has."""
    done = made.run(installation / "bin" / "rollcall", "install", "--site", f"--slurm-conf={made.folder}/etc/slurm.conf")
    line = (made.folder / "etc" / "plugstack.conf").read_text()
    path = rf"^optional {re.escape(str(installation))}/lib/rollcall/{version}-[0-9a-f]{{8}}/spank_rollcall\.so"
    assert re.search(path, line, re.M), done.stdout + line
    step(made)


def step(made):
    environments, errors = made.environments("--ddp=host.template=localhost,host.loopback=allow", "-N2")
    check_world(environments, 2)
    assert rollcall_lines(errors) == []


def test_a_slurm_without_a_plugin_is_told_with_those_that_have_one(unpacked, tmp_path):
    (tmp_path / "srun").write_text("#!/bin/sh\necho slurm 25.05.3\n")
    (tmp_path / "srun").chmod(0o755)
    (tmp_path / "slurm.conf").write_text("ClusterName=x\n")
    refused = subprocess.run([unpacked / "bin" / "rollcall", "install", "--site", "--dry-run", f"--slurm-conf={tmp_path}/slurm.conf"], text=True,
                             env={**clean_environment(), "PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True)
    assert refused.returncode == 66, refused.stdout
    versions = refused.stderr.partition(f"{unpacked}/lib/rollcall: has plugins for Slurm ")[2]
    assert re.match(r"[\d.]+, .*but this is Slurm 25\.05\.3; try", versions), refused.stderr
