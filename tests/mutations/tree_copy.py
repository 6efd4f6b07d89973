"""A copy of the working tree in which code may be broken, with a build folder of its own: the tree itself is never touched.

What this runner starts, it also ends: a test that hangs is killed with its process group, and what outlived its test (the
daemons of a throwaway Slurm, ranks without a parent) with it."""
import ctypes
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

PRESET = "mutations"
BUILD_MINUTES = 60
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def adopt_orphans():
    """Processes whose parent ended become children of this one (prctl(2)), so that they can be found."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children():
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            # After the name, which may hold anything, come the state and the parent (proc(5)).
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1]) if folder.name.isdigit() else 0
        except (OSError, IndexError):
            continue  # it has ended since
        if parent == os.getpid():
            found.append(int(folder.name))
    return found


def end_orphans():
    while pids := children():
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def run(command, folder, environment, seconds):
    """(exit status, output) of a command; the status is None where it was killed after `seconds`."""
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                              stderr=subprocess.STDOUT, start_new_session=True) as process:
            status = None
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                end_orphans()
        output.seek(0)
        return status, output.read().decode(errors="replace")


class TreeCopy:
    def __init__(self, root, folder):
        self.root, self.source = root, folder / "source"
        self.build_folder = self.source / "build" / PRESET
        self.source.mkdir(parents=True, exist_ok=True)
        self.lock = open(folder / "lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def synchronise(self):
        """Makes the copy equal to the tree. What is equal keeps its time, so that only what changed is built anew."""
        listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=self.root, check=True,
                                capture_output=True).stdout.decode().split("\0")
        wanted = {name for name in listed if name and os.path.lexists(self.root / name)}
        for name in wanted:
            self.copy_file(name)
        for folder, folders, files in os.walk(self.source):
            if pathlib.Path(folder) == self.source:
                folders[:] = [name for name in folders if name != "build"]
            for path in (pathlib.Path(folder, name) for name in files):
                if str(path.relative_to(self.source)) not in wanted:
                    path.unlink()

    def copy_file(self, name):
        original, copy = self.root / name, self.source / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if original.is_symlink():
            copy.unlink(missing_ok=True)
            copy.symlink_to(os.readlink(original))
            return
        if not copy.is_file() or copy.read_bytes() != original.read_bytes():
            shutil.copyfile(original, copy)
        copy.chmod(original.stat().st_mode & 0o777)

    def environment(self):
        """The copy's paths are, for ccache, those of any other build folder: what one compiled, the other has."""
        return {**os.environ, "CCACHE_BASEDIR": str(self.source), "CCACHE_NOHASHDIR": "1", "OMP_NUM_THREADS": "1",
                "GTEST_FAIL_FAST": "1", "ROLLCALL_BUILD_DIR": str(self.build_folder), "ROLLCALL_SOURCE_DIR": str(self.source)}

    def configure(self):
        return run(["cmake", "--preset", PRESET], self.source, self.environment(), BUILD_MINUTES * 60)

    def build(self, targets, jobs):
        command = ["cmake", "--build", "--preset", PRESET, "--target", *targets, "--", f"-j{jobs}"]
        return run(command, self.source, self.environment(), BUILD_MINUTES * 60)

    def test(self, mutation, seconds):
        """(exit status, output, seconds it took)"""
        program, *options = mutation.test_words
        if mutation.is_pytest:
            python = subprocess.run(["scripts/setup", "--print-python"], cwd=self.source, check=True, capture_output=True,
                                    text=True).stdout.strip()
            command = [python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-rs", program, *options]
        else:
            command = [str(self.build_folder / "tests" / program), *options]
        begun = time.monotonic()
        status, output = run(command, self.source, self.environment(), seconds)
        return status, output, time.monotonic() - begun

    def write(self, mutation, text):
        (self.source / mutation.file).write_text(text)


def tests_passed(mutation, output):
    """How many tests a run reports as passed."""
    pattern = r"(\d+) passed" if mutation.is_pytest else r"\[  PASSED  \] (\d+) test"
    found = re.findall(pattern, output)
    return int(found[-1]) if found else 0
