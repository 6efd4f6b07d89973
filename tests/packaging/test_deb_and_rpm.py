"""deb and rpm packages of this build: what is in them, and their life on a clean Debian with a Slurm."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from minicluster import Minicluster, check_world

pytestmark = [pytest.mark.python, pytest.mark.long]
BUILD = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["ROLLCALL_SOURCE_DIR"])
VERSION = re.search(r"^project\(rollcall VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text(), re.M)[1]
ENVIRONMENT = {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8",
               "DEBFULLNAME": "A Site", "DEBEMAIL": "packages@site.org"}
# Compressing LibTorch takes a minute: only debs have it here, by zstd.
QUICKLY = ("-D", "CPACK_DEBIAN_COMPRESSION_TYPE=zstd")
WITHOUT_TRAINER = ("-D", "CPACK_COMPONENTS_ALL=launch;plugin;doc")
FOR_USERS = ("rollcall", "rollcall-doc", "rollcall-slurm-plugin")
# An older version: with a file that is gone, and with another plugin.
OLDER = """
file(WRITE ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/launch/usr/share/rollcall/site_config/gone.toml "")
file(GLOB_RECURSE plugin ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/plugin/spank_rollcall.so)
file(APPEND ${plugin} older)
"""


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    """rpm's programs write there. What is nobody's home on Debian must not come to exist: tests run steps as that user."""
    ENVIRONMENT["HOME"] = str(tmp_path_factory.mktemp("home"))


def needs(program):
    if not shutil.which(program, path=ENVIRONMENT["PATH"]):
        pytest.skip(f"{program} is not installed")


def run(*command, **options):
    done = subprocess.run(command, check=False, capture_output=True, text=True, **{"env": ENVIRONMENT, **options})
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def pack(generator, folder, *options, build=BUILD):
    """Returns the packages' files by name without version."""
    run("cpack", "-G", generator, *QUICKLY, "--config", build / "CPackConfig.cmake", "-B", folder, *options, cwd=build)
    shutil.rmtree(folder / "_CPack_Packages")
    return {re.split(r"[-_]\d+\.", path.name)[0]: path for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def debs(tmp_path_factory):
    needs("dpkg-deb")
    needs("patchelf")
    if not (BUILD / "trainer/rollcall-bench-collectives").exists():
        pytest.skip("not all programs are built")
    return pack("DEB", tmp_path_factory.mktemp("deb"))


@pytest.fixture(scope="module")
def rpms(tmp_path_factory):
    needs("rpmbuild")
    return pack("RPM", tmp_path_factory.mktemp("rpm"), *WITHOUT_TRAINER)


def older(generator, folder, **requirements):
    (folder / "older.cmake").write_text(OLDER)
    scripts = f"CPACK_PRE_BUILD_SCRIPTS={SOURCE}/packaging/stage.cmake;{folder}/older.cmake"
    return pack(generator, folder / "packages", *WITHOUT_TRAINER, "-D", "CPACK_PACKAGE_VERSION=0.0.9", "-D", scripts,
                *(word for name, value in requirements.items() for word in ("-D", f"{name}={value}")))


def plugin_of(packages):
    return next(name for name in packages if name.startswith("rollcall-slurm-plugin"))


def field(deb, name):
    return run("dpkg-deb", "-f", deb, name).strip()


def depends(deb):
    return {re.match(r"[\w.+-]+", entry)[0] for entry in field(deb, "Depends").split(", ") if entry}


def test_debs_have_names_and_dependencies(debs):
    plugin = plugin_of(debs)
    assert re.fullmatch(r"rollcall-slurm-plugin-sl\d{4}", plugin)
    for name, path in debs.items():
        assert path.name == f"{name}_{VERSION}-1_{'all' if name == 'rollcall-doc' else 'amd64'}.deb"
        assert field(path, "Maintainer") == "A Site <packages@site.org>"
    assert re.fullmatch(r"libc6 \(>= [\d.]+\)", field(debs["rollcall"], "Depends"))
    assert re.fullmatch(rf"rollcall \(= {re.escape(VERSION)}-1\), libslurm\d+\w*, libc6 \(>= [\d.]+\)", field(debs[plugin], "Depends"))
    assert field(debs["rollcall-doc"], "Depends") == ""
    assert {"libhdf5-103-1", "libisal2", "libpng16-16", "libucx0"} <= depends(debs["rollcall-trainer"])


def test_no_package_runs_a_script_when_it_is_installed(debs, rpms, tmp_path):
    """So Slurm's configuration is changed by `rollcall install --site` alone."""
    for name, path in debs.items():
        run("dpkg-deb", "-e", path, tmp_path / name)
        scripts = [file for file in (tmp_path / name).iterdir() if file.name not in ("control", "md5sums")]
        if name != "rollcall-trainer":  # cpack has it call ldconfig, for the plugin of --backend=mpi
            assert not scripts
    for path in rpms.values():
        assert run("rpm", "-qp", "--scripts", "--triggers", path) == ""


@pytest.fixture(scope="module")
def unpacked(debs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    for name, path in debs.items():
        run("dpkg-deb", "-x", path, folder / name)
    yield folder
    shutil.rmtree(folder)


def test_files_of_debs_have_modes_texts_and_no_path_of_the_build(debs, unpacked):
    root = unpacked
    of_the_build = re.compile(rb"(%s|%s|%s)\b" % tuple(re.escape(os.fsencode(folder)) for folder in (BUILD, SOURCE, sys.prefix)))
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or path in root.iterdir():
            continue
        is_program = path.is_dir() or re.search(r"/bin/|/trainer/rollcall-[\w-]+$|/rollcall-epilog.sh$", str(path))
        assert path.stat().st_mode & 0o7777 == (0o755 if is_program else 0o644), path
        if path.is_file():
            assert not of_the_build.search(path.read_bytes()), path
    for name in debs:
        own = {path.name for path in (root / name / "usr/share/doc" / name).iterdir()}
        assert {"copyright", "changelog.Debian.gz"} <= own
    assert (root / "rollcall/usr/bin/rollcall").is_file() and (root / "rollcall/usr/share/man/man1/rollcall.1.gz").is_file()
    assert (root / "rollcall-doc/usr/share/doc/rollcall/docs/index.md").is_file()
    plugin = plugin_of(debs)
    files = [path.relative_to(root / plugin) for path in (root / plugin / "usr/lib").rglob("*.so")]
    assert re.fullmatch(r"\[PosixPath\('usr/lib/rollcall/slurm-\d\d\.\d\d/spank_rollcall\.so'\)\]", str(files))


def test_programs_are_stripped_and_hardened(unpacked):
    for path in unpacked.rglob("*rollcall*"):
        if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF":
            table = run("readelf", "-hlSdW", path)
            assert ".symtab" not in table and "DYN" in table and "GNU_RELRO" in table, path
            assert re.search(r"GNU_STACK.* RW  ", table) and ("NOW" in table or path.name == "rollcall_mpi.so"), path


def test_packing_again_gives_the_same_bytes(debs, rpms, tmp_path):
    for generator, packages in (("DEB", debs), ("RPM", rpms)):
        for name, path in pack(generator, tmp_path / generator, *WITHOUT_TRAINER).items():
            run("cmp", path, packages[name])


def test_who_packs_gives_an_address(tmp_path):
    done = subprocess.run(["cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", tmp_path], cwd=BUILD, check=False,
                          capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert done.returncode != 0 and "rollcall: DEBEMAIL: is not set" in done.stderr


def test_lintian_and_rpmlint_find_nothing(debs, rpms):
    needs("lintian")
    needs("rpmlint")
    # It takes minutes for the texts in LibTorch, and does not know zstd in packages.
    light = [path for name, path in debs.items() if name != "rollcall-trainer"]
    assert run("lintian", "--allow-root", "--fail-on=error,warning", "--suppress-tags=malformed-deb-archive", *light) == ""
    assert "0 errors, 0 warnings" in run("rpmlint", "-c", SOURCE / "packaging/rpmlint.toml", *rpms.values())


def test_rpms_have_names_and_requirements(rpms):
    release = run("rpm", "-qp", "--qf", "%{RELEASE}", rpms["rollcall-slurm-plugin"])
    assert re.fullmatch(r"1\.sl\d{4}", release)
    assert run("rpm", "-qp", "--qf", "%{NVRA}", rpms["rollcall"]) == f"rollcall-{VERSION}-1.x86_64"
    required = set(run("rpm", "-qp", "--requires", rpms["rollcall-slurm-plugin"]).splitlines())
    others = {line for line in required if not re.match(r"libc\.so|rpmlib\(|ld-linux|rtld\(", line)}
    assert {re.sub(r"\d+", "N", line) for line in others} == {"libslurm.so.N()(Nbit)", "rollcall = N.N.N-N"}


def required_of_the_system(*packages):
    """What no package of rollcall provides, and rpm itself does not."""
    lines = run("rpm", "-qp", "--requires", *packages).splitlines()
    return sorted({line for line in lines if not line.startswith(("rpmlib", "rollcall "))})


def stand_in(folder, name, version, provides):
    """A package of this test, which provides what another system has. Returns its file."""
    (folder / f"{name}.spec").write_text(
        f"Name: {name}\nVersion: {version}\nRelease: 1\nSummary: s\nLicense: none\nBuildArch: noarch\nAutoReqProv: no\n" +
        "".join(f"Provides: {line}\n" for line in provides) + "%description\ns\n%files\n")
    run("rpmbuild", "-bb", "--define", f"_topdir {folder / 'top'}", folder / f"{name}.spec")
    return folder / f"top/RPMS/noarch/{name}-{version}-1.noarch.rpm"


def test_rpms_are_installed_upgraded_and_removed(rpms, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can install into another root")
    root = tmp_path / "root"
    rpm = ["rpm", "--root", str(root)]
    chosen = [rpms[name] for name in FOR_USERS]
    system = stand_in(tmp_path, "system", "1", required_of_the_system(*chosen))
    before = older("RPM", tmp_path, CPACK_RPM_PLUGIN_PACKAGE_REQUIRES="rollcall = 0.0.9-1")
    refused = subprocess.run([*rpm, "-i", rpms["rollcall-slurm-plugin"]], check=False, capture_output=True, text=True)
    assert refused.returncode != 0 and "libslurm.so" in refused.stderr
    run(*rpm, "-i", system, *(before[name] for name in FOR_USERS))
    assert (root / "usr/share/rollcall/site_config/gone.toml").exists()
    run(*rpm, "-U", *chosen)
    assert not (root / "usr/share/rollcall/site_config/gone.toml").exists()
    run(*rpm, "-V", *FOR_USERS, "--nodeps")
    run(*rpm, "-e", *FOR_USERS)
    assert left_files(root) == []


# --- the plugin for other Slurms

SUITES = {"trixie": "24.11", "forky": "26.05"}


def configure(folder, include, library, owner):
    """A build of the plugin alone for the Slurm with the headers in `include`, whose library the package `owner` has ("": none)."""
    (folder / "slurm/lib").mkdir(parents=True)
    (folder / "slurm/include").mkdir()
    (folder / "slurm/include/slurm").symlink_to(include / "slurm")
    (folder / "slurm/lib" / library).touch()
    (folder / "slurm/lib/libslurm.so").symlink_to(library)
    (folder / "bin").mkdir()
    (folder / "bin/dpkg-query").write_text(f'#!/bin/sh\n[ "{owner}" ] && echo "{owner}:amd64: $2"\n')
    (folder / "bin/dpkg-query").chmod(0o755)
    run("cmake", "--preset", "release", "-B", folder / "build", f"-DSlurm_ROOT={folder / 'slurm'}", "-DROLLCALL_CCACHE=OFF",
        *(f"-DROLLCALL_{what}=OFF" for what in ("TRAINER", "TESTS", "BENCHMARKS")), cwd=SOURCE,
        env={**ENVIRONMENT, "PATH": f"{folder / 'bin'}:{ENVIRONMENT['PATH']}"})
    return folder / "build"


@pytest.fixture(scope="module", params=SUITES)
def other(request, tmp_path_factory):
    """suite, name of libslurm's file, deb and rpm of the plugin"""
    needs("rpmbuild")
    root = pathlib.Path(subprocess.run([SOURCE / "scripts/second-slurm", f"--suite={request.param}", "--print-root"], check=True,
                                       capture_output=True, text=True).stdout.strip())
    if not root.exists():
        pytest.skip(f"the Slurm of {request.param} is not here (scripts/second-slurm)")
    folder = tmp_path_factory.mktemp(request.param)
    library = os.readlink(root / "usr/lib/x86_64-linux-gnu/libslurm.so")
    build = configure(folder, root / "usr/include", library, re.sub(r"\.so\.(\d+)\..*", r"\1", library))
    run("cmake", "--build", build, "--target", "spank_rollcall")
    only_plugin = ("-D", "CPACK_COMPONENTS_ALL=plugin")
    (deb,) = pack("DEB", folder / "deb", *only_plugin, build=build).values()
    (rpm,) = pack("RPM", folder / "rpm", *only_plugin, build=build).values()
    return request.param, library, deb, rpm


def test_dnf_updates_the_plugin_with_slurm(rpms, other, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can install into another root")
    needs("dnf")
    needs("createrepo_c")
    suite, _, _, newer = other
    repository, root = tmp_path / "repository", tmp_path / "root"
    repository.mkdir()
    libslurms = {}
    for version, plugin in (("22.05", rpms["rollcall-slurm-plugin"]), (SUITES[suite], newer)):
        libslurms[version] = next(line for line in required_of_the_system(plugin) if line.startswith("libslurm"))
        shutil.copy(stand_in(tmp_path, "slurm", version, [libslurms[version]]), repository)
        shutil.copy(plugin, repository)
    others = set(required_of_the_system(rpms["rollcall"], rpms["rollcall-slurm-plugin"], newer)) - set(libslurms.values())
    shutil.copy(stand_in(tmp_path, "system", "1", sorted(others)), repository)
    shutil.copy(rpms["rollcall"], repository)
    run("createrepo_c", repository)

    def dnf(*words):
        run("dnf", "-y", f"--installroot={root}", "--releasever=1", "--setopt=reposdir=/dev/null", f"--setopt=cachedir={tmp_path / 'cache'}",
            f"--repofrompath=site,file://{repository}", "--nogpgcheck", *words)
        return set(run("rpm", "--root", root, "-qa", "--qf", "%{NAME}-%{VERSION}-%{RELEASE}\n").split()) - {"system-1-1"}

    first = run("rpm", "-qp", "--qf", "%{NVR}", rpms["rollcall-slurm-plugin"])
    assert dnf("install", "slurm-22.05", first) == {"slurm-22.05-1", f"rollcall-{VERSION}-1", first}
    release = SUITES[suite].replace(".", "")
    assert dnf("update", "slurm") == {f"slurm-{SUITES[suite]}-1", f"rollcall-{VERSION}-1", f"rollcall-slurm-plugin-{VERSION}-1.sl{release}"}
    assert dnf("remove", "rollcall") == {f"slurm-{SUITES[suite]}-1"}


def files_of(deb):
    return {line.split()[5] for line in run("dpkg-deb", "-c", deb).splitlines() if not line.startswith("d")}


def test_each_slurm_has_a_package_that_requires_its_library(other, debs):
    suite, library, deb, rpm = other
    name = f"rollcall-slurm-plugin-sl{SUITES[suite].replace('.', '')}"
    assert deb.name == f"{name}_{VERSION}-1_amd64.deb"
    assert re.fullmatch(rf"rollcall \(= {re.escape(VERSION)}-1\), libslurm\d+, libc6 \(>= [\d.]+\)", field(deb, "Depends"))
    assert run("rpm", "-qp", "--qf", "%{NVR}", rpm) == f"rollcall-slurm-plugin-{VERSION}-1.{name[-6:]}"
    soname = library.removesuffix(".0.0")
    assert soname.replace(".so.", "") in field(deb, "Depends").split(", ")
    assert f"{soname}()(64bit)" in run("rpm", "-qp", "--requires", rpm).splitlines()
    # dpkg installs them beside each other, and refuses a file that another package has.
    assert not files_of(deb) & files_of(debs[plugin_of(debs)]) and any(SUITES[suite] in path for path in files_of(deb))


def test_packages_make_srun_ddp_work_in_that_slurm(other, debs, believed_folder):
    suite, _, deb, _ = other
    if os.geteuid() != 0 or pathlib.Path("/etc/rollcall/site.toml").exists():
        pytest.skip("only root's files are trusted, and this machine has to have no profile of its own")
    root = believed_folder / f"root-{suite}"
    for package in (debs["rollcall"], debs[plugin_of(debs)], deb):
        run("dpkg-deb", "-x", package, root)
    cluster = Minicluster(believed_folder / suite, f"--slurm={suite}", "--nodes=2").start()
    try:
        conf = cluster.folder / "etc"
        cluster.run(root / "usr/bin/rollcall", "install", "--site", f"--slurm-conf={conf}/slurm.conf")
        assert f"/usr/lib/rollcall/{SUITES[suite]}-" in (conf / "plugstack.conf").read_text()
        environments, _ = cluster.environments("--ddp=host.template=localhost,host.loopback=allow", "-N2")
        check_world(environments, 2)
    finally:
        cluster.stop()


@pytest.mark.parametrize(("owner", "deb", "rpm"), [
    pytest.param("", "", "", id="make-install"),
    pytest.param("slurm-smd", ", slurm-smd (>= 25.05), slurm-smd (<< 25.6)", ", libslurm.so.43()(64bit)", id="debs-of-slurms-sources"),
    pytest.param("libslurm43t64", ", libslurm43t64", ", libslurm.so.43()(64bit)", id="debian")])
def test_the_package_that_owns_libslurm_is_required(tmp_path, owner, deb, rpm):
    (tmp_path / "include/slurm").mkdir(parents=True)
    (tmp_path / "include/slurm/spank.h").touch()
    (tmp_path / "include/slurm/slurm_version.h").write_text("#define SLURM_VERSION_NUMBER 0x190503\n")
    build = configure(tmp_path, tmp_path / "include", "libslurm.so.43.0.0", owner)
    config = (build / "CPackConfig.cmake").read_text()
    assert f'set(CPACK_DEBIAN_PLUGIN_PACKAGE_DEPENDS "rollcall (= {VERSION}-1){deb}")' in config
    assert f'set(CPACK_RPM_PLUGIN_PACKAGE_REQUIRES "rollcall = {VERSION}-1{rpm}")' in config


# --- the life of debs

@pytest.fixture(scope="module")
def clean_root(debs, tmp_path_factory):
    """A minimal Debian with Slurm and with what the packages depend on."""
    needs("mmdebstrap")
    if os.geteuid() != 0:
        pytest.skip("only root can start Slurm in another root")
    release = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M)[1]
    packages = {"slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "iproute2"}.union(*map(depends, debs.values()))
    root = tmp_path_factory.mktemp("clean", numbered=True)
    run("mmdebstrap", "--variant=minbase", "--dpkgopt=force-unsafe-io", f"--include={','.join(sorted(packages - {'rollcall'}))}", release, root)
    for folder in ("scripts", "site_config"):
        shutil.copytree(SOURCE / folder, root / "srv" / folder)
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    yield root
    shutil.rmtree(root)


def inside(root, command, code=0):
    """Runs it in the root, where processes that it leaves behind keep their own /proc."""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$0/proc" && exec chroot "$0" bash -c "$1"', root, command],
                          check=False, capture_output=True, text=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"})
    assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


MINICLUSTER = "/srv/scripts/minicluster --dir=/srv/cluster"
TINY = "--data=fake --model=resnet20 --image-size=32 --fake-size=40 --batch-size=4 --max-steps=2"
MASTER = f"{MINICLUSTER} run srun -N2 --ddp env"
INSTALL = f"{MINICLUSTER} run rollcall install --site --profile=/usr/share/rollcall/site_config/minicluster.toml"


def loaded_plugin(root):
    return re.search(r"^optional (\S+)", (root / "srv/cluster/etc/plugstack.conf").read_text(), re.M)[1]


def left_files(root):
    """Files and links that have rollcall's name, or lie in a folder with it."""
    paths = [path for folder in ("usr", "etc", "var/lib") for path in (root / folder).rglob("*")]
    return [path for path in paths if "rollcall" in str(path.relative_to(root)) and (path.is_symlink() or not path.is_dir())]


def test_debs_live_on_a_clean_system_with_a_slurm(debs, clean_root, tmp_path):
    root = clean_root
    plugin = plugin_of(debs)
    before = older("DEB", tmp_path, CPACK_DEBIAN_PLUGIN_PACKAGE_DEPENDS="rollcall (= 0.0.9-1)")
    for version, packages in (("old", before), ("new", debs)):
        (root / "srv" / version).mkdir()
        for path in packages.values():
            shutil.copy(path, root / "srv" / version)
    inside(root, f"dpkg -i /srv/old/rollcall_* /srv/old/{plugin}_*")
    inside(root, f"{MINICLUSTER} --nodes=2 start")
    try:
        assert "unrecognized option '--ddp'" in inside(root, MASTER, 255)  # it is off
        inside(root, INSTALL)
        assert "MASTER_ADDR=" in inside(root, MASTER)
        first = loaded_plugin(root)

        inside(root, "dpkg -i /srv/new/*.deb")
        assert not (root / "usr/share/rollcall/site_config/gone.toml").exists()
        assert loaded_plugin(root) == first and "MASTER_ADDR=" in inside(root, MASTER)  # as it was, until it is installed
        inside(root, INSTALL)
        second = loaded_plugin(root)
        assert second != first and "MASTER_ADDR=" in inside(root, MASTER)
        assert "epoch" in inside(root, f"{MINICLUSTER} run srun -N2 --ddp rollcall-train {TINY}")
        assert inside(root, "dpkg --verify " + " ".join(debs)) == ""

        inside(root, "dpkg -r " + " ".join(debs))
        assert "MASTER_ADDR=" in inside(root, MASTER)  # what steps use is none of the packages' files
        program = pathlib.Path(second).parent / "bin/rollcall"
        inside(root, f"{MINICLUSTER} run {program} uninstall --site")
        inside(root, f"{MINICLUSTER} run srun -N2 true")
        assert "unrecognized option '--ddp'" in inside(root, MASTER, 255)

        inside(root, "dpkg -P " + " ".join(debs))
        placed = [root / str(pathlib.Path(path).parent).lstrip("/") for path in (first, second)]
        assert sorted(left_files(root)) == sorted(folder / name for folder in placed for name in ("spank_rollcall.so", "bin/rollcall"))
    finally:
        inside(root, f"{MINICLUSTER} stop")
