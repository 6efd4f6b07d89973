"""Each step of srun --ddp has a secret that its processes inherit and that appears in no Slurm record, log or environment."""

import fcntl
import json
import os
import pathlib
import platform
import re
import subprocess

import pytest

from minicluster import Minicluster, poll

pytestmark = pytest.mark.slurm
VARIABLE = "SLURM_ROLLCALL_STEP_SECRET"
F_GET_SEALS = fcntl.F_LINUX_SPECIFIC_BASE + 10 if hasattr(fcntl, "F_LINUX_SPECIFIC_BASE") else 1034

# A task writes to a file what it inherited and its complete environment.
READ = r"""
import fcntl, json, os, pathlib, sys
number = os.environ.get("ROLLCALL_SECRET_FD")
found = {"step": os.environ["SLURM_JOB_ID"] + "." + os.environ["SLURM_STEP_ID"], "number": number, "text": None}
if number:
    try:
        found |= {"text": os.pread(int(number), 4096, 0).decode(), "seals": fcntl.fcntl(int(number), 1034),
                  "kind": os.readlink("/proc/self/fd/" + number), "owner": os.fstat(int(number)).st_uid}
    except OSError:
        pass
found["environment"] = dict(os.environ)
found["environ"] = pathlib.Path("/proc/self/environ").read_text()
name = "-".join([found["step"], os.environ["SLURM_PROCID"], str(os.getpid())])
pathlib.Path(sys.argv[1], name + ".json").write_text(json.dumps(found))
"""
ALL_SEALS = 0xf


@pytest.fixture(scope="module")
def site(short_folder, plugin):
    """A cluster that logs all that it can, and whose prologs and epilogs write their environments into its folder."""
    folder = short_folder / "s"
    shown = short_folder / "s-shown"
    shown.mkdir()
    shown.chmod(0o777)
    script = short_folder / "s-tell"
    script.write_text(f'#!/bin/sh\nenv > {shown}/$(basename $0).$$ 2>&1\ncat /proc/$PPID/environ > {shown}/parent.$$ 2> /dev/null\nexit 0\n')
    script.chmod(0o755)
    places = {}
    for name in ("Prolog", "Epilog", "TaskProlog", "TaskEpilog", "SrunProlog", "PrologSlurmctld", "EpilogSlurmctld"):
        places[name] = short_folder / f"s-{name}"
        places[name].symlink_to(script)
    conf = [f"--conf={name}={path}" for name, path in places.items()]
    made = Minicluster(folder, f"--plugin={plugin}", "--conf=SlurmdDebug=debug5", "--conf=SlurmctldDebug=debug5", *conf).start()
    made.shown = shown
    yield made
    made.stop()


def tasks_of(cluster, *options, env=None):
    """What each task of such a step wrote."""
    folder = cluster.new_folder()
    folder.chmod(0o777)
    cluster.run("srun", *options, "/usr/bin/python3", "-S", "-c", READ, str(folder), env=env)
    return [json.loads(path.read_text()) for path in sorted(folder.iterdir())]


def secret_of(task):
    step, digits = task["text"].split(" ")
    assert step == task["step"] and re.fullmatch("[0-9a-f]{32}", digits), task["text"]
    return digits


def test_each_task_inherits_the_step_secret_in_a_sealed_memfd(cluster):
    tasks = tasks_of(cluster, "--ddp", "-N2", "--ntasks-per-node=2")
    assert len(tasks) == 4 and len({secret_of(task) for task in tasks}) == 1
    for task in tasks:
        assert task["seals"] & ALL_SEALS == ALL_SEALS and task["kind"].startswith("/memfd:rollcall-secret")
        assert int(task["number"]) >= 20 and task["owner"] == os.geteuid()
        assert VARIABLE not in task["environment"] and secret_of(task) not in task["environ"] + json.dumps(task["environment"])


def test_each_step_has_its_own_secret(cluster):
    steps = [tasks_of(cluster, "--ddp")[0], tasks_of(cluster, "--ddp")[0]]
    assert secret_of(steps[0]) != secret_of(steps[1])
    inside = tasks_of(cluster, "--ddp", "srun", "--overlap", "--ddp")
    assert len(inside) == 1 and secret_of(inside[0])
    (without,) = tasks_of(cluster, "--ddp", "srun", "--overlap")
    assert without["number"] is None and without["text"] is None


def test_all_components_of_a_het_step_share_one_secret(cluster):
    folder = cluster.new_folder()
    program = ["/usr/bin/python3", "-S", "-c", READ, str(folder)]
    cluster.run("srun", "--ddp", "-N1", *program, ":", "--ddp", "-N1", *program)
    tasks = [json.loads(path.read_text()) for path in folder.iterdir()]
    assert len(tasks) == 2 and len({secret_of(task) for task in tasks}) == 1


@pytest.mark.parametrize("option", ["--export=NONE", "--export=ROLLCALL_THREADS"])
def test_the_secret_is_passed_on_with_a_restricted_export(cluster, option):
    assert secret_of(tasks_of(cluster, "--ddp", option)[0])


@pytest.mark.parametrize("options", [[], ["--ddp=off"]])
def test_without_ddp_there_is_no_step_secret(cluster, options):
    (task,) = tasks_of(cluster, *options, env={VARIABLE: "0" * 32, "ROLLCALL_SECRET_FD": "2"})
    assert task["number"] is None and VARIABLE not in task["environment"]


def places_of(text, *folders):
    """Daemons that live on may replace a file while it is looked for."""
    found = subprocess.run(["grep", "-rlaF", "--", text, *folders], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    assert found.returncode in (0, 1, 2), found.stderr
    assert all(line.endswith("No such file or directory") for line in found.stderr.splitlines()), found.stderr
    return found.stdout.splitlines()


@pytest.mark.long
def test_the_secret_appears_in_no_record_log_or_environment(site, tmp_path_factory):
    folder = tmp_path_factory.mktemp("told")  # which is no place of Slurm's
    fifo = folder / "go"
    os.mkfifo(fifo)
    script = f"/usr/bin/python3 -S -c '{READ}' {folder}; read line < {fifo}; env"
    command = [str(site.program), f"--dir={site.folder}", "run", "srun", "--ddp", "-vvvv", "-N1", "sh", "-c", script]
    step = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/tmp")
    task = json.loads(poll(lambda: [path.read_text() for path in folder.glob("*.json") if path.stat().st_size], "the task runs")[0])
    secret = secret_of(task)
    seen = [site.run("scontrol", "-d", "show", what).stdout for what in ("job", "step", "node")]
    seen += [site.run("squeue", "-O", "ALL", check=False).stdout, site.run("squeue", "-s").stdout]
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            seen += [(process / "environ").read_text(errors="replace"), (process / "cmdline").read_text(errors="replace")]
        except OSError:
            pass
    fifo.write_text("go\n")
    output, _ = step.communicate(timeout=60)
    poll(lambda: len(list(site.shown.glob("s-Epilog.*"))) == 1, "the epilog ran")
    assert {path.name.split(".")[0] for path in site.shown.iterdir()} >= {
        "s-Prolog", "s-Epilog", "s-TaskProlog", "s-TaskEpilog", "s-SrunProlog", "s-PrologSlurmctld"}
    assert "SLURM_STEP_ID" in output and not [text for text in [*seen, output] if secret in text]
    # What srun itself runs, with the user's rights, has srun's environment; nothing else has it.
    places = places_of(secret, site.folder, site.shown)
    assert places_of(secret, folder) and {pathlib.Path(path).name.split(".")[0] for path in places} <= {"s-SrunProlog"}, places


def test_sbatch_and_salloc_have_no_step_secret(cluster):
    assert VARIABLE not in cluster.batch("#!/bin/bash\n#SBATCH --ddp\nenv\n")
    assert VARIABLE not in cluster.run("salloc", "--ddp", "-N1", "env").stdout


def test_the_secret_of_a_submitting_step_is_not_stored_in_a_batch_job(cluster):
    """As a task has it on a node without the plugin."""
    script = cluster.new_folder() / "job"
    script.write_text("#!/bin/bash\n:\n")
    variables = {VARIABLE: "0" * 32}
    job = cluster.run("sbatch", "--hold", "--parsable", "--output=/dev/null", str(script), env=variables).stdout.strip()
    try:
        kept = places_of(VARIABLE, cluster.folder)
        assert [path for path in kept if f"job.{job}" in path] == [], kept
    finally:
        cluster.run("scancel", job)


REFUSING = """#!/usr/bin/python3 -S
# NODE PROGRAM...: runs PROGRAM without memfd_create(2) for it and its children, as some sandboxes do
import ctypes, os, platform, struct, sys
number = {"x86_64": 319, "aarch64": 279}[platform.machine()]
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7fff0000)]  # its number: ENOSYS; else allowed
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("@HP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.long
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the number of memfd_create is not known here")
def test_a_node_without_memfd_create_ends_the_step_with_an_error(short_folder, plugin):
    on = short_folder / "refusing"
    on.write_text(REFUSING)
    on.chmod(0o755)
    made = Minicluster(short_folder / "r", "--nodes=1", f"--plugin={plugin}", f"--on={on}").start()
    try:
        ended = made.run("srun", "--ddp", "true", check=False)
        assert ended.returncode == 69, ended.stderr
        assert ("rollcall: --ddp: this node cannot pass on the step's secret: Function not implemented; "
                "try using a node whose kernel and sandbox allow memfd_create(2)") in ended.stderr
        made.run("srun", "true")
        poll(lambda: made.nodes_in_state("idle") == ["jwb0001"], "the node is idle again")  # after the step it is completing
    finally:
        made.stop()
