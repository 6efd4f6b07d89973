"""If Slurm gives each job a private /tmp, rollcall creates the cache folders of a task in it and none in the /tmp of the host."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from minicluster import SLURM, SOURCE, Minicluster

# The plugin's name changed; its file did not.
KINDS = {"job_container_tmpfs.so": "JobContainerType=job_container/tmpfs", "namespace_tmpfs.so": "NamespaceType=namespace/tmpfs"}

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(os.geteuid() != 0, reason="only root may make mount namespaces")]


def line_for_this_slurm():
    root = "/"
    if SLURM:
        root = subprocess.run([SOURCE / "scripts" / "second-slurm", f"--suite={SLURM}", "--print-root"], stdout=subprocess.PIPE,
                              text=True, check=True).stdout.strip()
    for name, line in KINDS.items():
        if list(pathlib.Path(root, "usr", "lib").glob(f"*/slurm*/{name}")):
            return line
    pytest.skip("this Slurm has no plugin for private folders")


@pytest.fixture(scope="module")
def cluster_with_own_tmp(plugin, rollcall):
    """Two nodes; all that is theirs lies outside /tmp, which their jobs do not see."""
    line = line_for_this_slurm()
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        library = shutil.copy(plugin, folder)
        pathlib.Path(folder, "bin").mkdir()
        shutil.copy(rollcall, pathlib.Path(folder, "bin"))
        cluster = Minicluster(pathlib.Path(folder, "c"), "--nodes=2", f"--plugin={library}").start()
        etc, private = cluster.folder / "etc", pathlib.Path(folder, "private")
        private.mkdir()
        try:
            (etc / "job_container.conf").write_text(f"AutoBasePath=true\nBasePath={private}\n")
            with (etc / "slurm.conf").open("a") as conf:
                conf.write(f"{line}\nPrologFlags=contain\n")
            cluster.run("scontrol", "reconfigure")
            for node in ("jwb0001", "jwb0002"):
                cluster.script("restart-node", node)
            yield cluster
        finally:
            cluster.stop()
            subprocess.run(["umount", "--recursive", "--quiet", private], check=False, stderr=subprocess.DEVNULL)


def test_caches_are_created_in_the_private_tmp_of_the_job(cluster_with_own_tmp):
    cache = pathlib.Path(f"/tmp/rollcall-test-{os.getpid()}")
    show = f'test "$(readlink /proc/self/ns/mnt)" = {os.readlink("/proc/self/ns/mnt")} || ls -d "$TRITON_CACHE_DIR"'
    step = cluster_with_own_tmp.run("srun", f"--ddp=cache.local={cache}", "-N2", "--ntasks-per-node=2", "sh", "-c", show, check=False)
    made = cache.exists()
    shutil.rmtree(cache, ignore_errors=True)
    assert step.returncode == 0, step.stderr
    if not step.stdout:
        pytest.skip("jobs have no /tmp of their own here")
    assert step.stdout.split() == [f"{cache}/triton"] * 4
    assert not made, "in the host's /tmp"
