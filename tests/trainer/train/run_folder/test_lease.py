"""One run writes to a folder at a time."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading

import pytest
import trainer_ranks
from folder_runs import OPTIONS

pytestmark = pytest.mark.python
pytest.importorskip("h5py")


def lease(folder):
    return json.loads((folder / "lease.json").read_text())


def running(folder, *options):
    """A run that has begun to train, in the middle of a long epoch."""
    process = trainer_ranks.start(folder, *OPTIONS, "--fake-size=100000", *options, ranks=1)[0]
    for line in process.stdout:
        if "step 1/" in line:
            return process
    raise AssertionError(process.communicate()[1])


def end(process, number):
    process.send_signal(number)
    process.communicate()


def test_a_second_run_cannot_use_the_checkpoint_dir_of_a_running_one(tmp_path):
    process = running(tmp_path)
    try:
        assert lease(tmp_path)["pid"] == process.pid
        text = trainer_ranks.run(tmp_path, *OPTIONS, "--fake-size=100000", ranks=1, code=73)
        assert f"process {process.pid} on" in text and "writes there; try" in text and text.count("rollcall: ") == 1
        assert trainer_ranks.checkpoints(tmp_path) == []
    finally:
        end(process, signal.SIGTERM)
    assert not (tmp_path / "lease.json").exists() and len(trainer_ranks.checkpoints(tmp_path)) == 1


def test_a_second_run_cannot_use_the_run_dir_of_a_running_one(tmp_path):
    """Their checkpoints are in different folders, but the report would mix both runs."""
    records = tmp_path / "records"
    process = running(tmp_path / "one", f"--run-dir={records}")
    try:
        assert lease(records) == lease(tmp_path / "one")
        text = trainer_ranks.run(tmp_path / "two", *OPTIONS, f"--run-dir={records}", ranks=1, code=73)
        assert f"rollcall: --run-dir: {records}: process {process.pid} on" in text and "changing --run-name or --run-dir" in text
        assert not (tmp_path / "two" / "lease.json").exists()
    finally:
        end(process, signal.SIGTERM)
    assert not (records / "lease.json").exists()
    trainer_ranks.run(tmp_path / "two", *OPTIONS, f"--run-dir={records}", "--max-steps=1", ranks=1)


@pytest.mark.long
def test_a_dead_holder_of_two_folders_is_waited_for_once(tmp_path):
    for folder in (tmp_path / "run", tmp_path / "records"):
        elsewhere(folder)
    text = trainer_ranks.run(tmp_path / "run", *OPTIONS, f"--run-dir={tmp_path}/records", "--max-steps=1", "--lease-timeout=16", ranks=1)
    assert text.count("waiting up to") == 1


def test_a_waiting_run_starts_when_the_holder_ends(tmp_path):
    first = running(tmp_path)
    second = trainer_ranks.start(tmp_path, *OPTIONS, "--fake-size=100000", "--lease-timeout=120", "--max-steps=1", ranks=1)[0]
    assert "waiting up to 120 s until it ends" in second.stderr.readline()
    end(first, signal.SIGTERM)
    assert second.wait(120) == 0


def test_the_folder_of_a_killed_run_is_free_at_once(tmp_path):
    end(running(tmp_path), signal.SIGKILL)
    assert (tmp_path / "lease.json").exists()
    trainer_ranks.run(tmp_path, *OPTIONS, "--fake-size=100000", "--max-steps=1", ranks=1)
    assert not (tmp_path / "lease.json").exists()


def elsewhere(folder, **more):
    """The lease of a holder on another host, which may or may not be alive."""
    folder.mkdir(exist_ok=True)
    holder = {"nonce": "0123", "host": "elsewhere", "boot": "another", "processes": "pid:[1]", "pid": 17, "started": "1", "job": "",
              "restarts": "0"}
    (folder / "lease.json").write_text(json.dumps({**holder, **more}))


def test_a_holder_on_another_host_is_considered_alive_without_a_wait(tmp_path):
    elsewhere(tmp_path)
    assert "process 17 on elsewhere writes there" in trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, code=73)


@contextlib.contextmanager
def renewing(path, seconds=1):
    """Renews the lease as a living holder does."""
    ended = threading.Event()

    def renew():
        while not ended.wait(seconds):
            with contextlib.suppress(FileNotFoundError):
                os.utime(path)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.long
@pytest.mark.parametrize("renewals", ["none", "one", "slow", "all"])
def test_a_holder_on_another_host_is_judged_by_its_renewals(tmp_path, renewals):
    """A holder killed after a renewal is dead; one that renews slowly, over a slow file server, is alive."""
    elsewhere(tmp_path)
    process = trainer_ranks.start(tmp_path, *OPTIONS, "--max-steps=1", "--lease-timeout=16", ranks=1)[0]
    process.stderr.readline()
    if renewals == "one":
        os.utime(tmp_path / "lease.json")
    lives = renewals in ("slow", "all")
    with renewing(tmp_path / "lease.json", 9 if renewals == "slow" else 1) if lives else contextlib.nullcontext():
        text = trainer_ranks.finish([process], 73 if lives else 0)
    assert ("writes there; try" in text) == lives


def test_a_restarted_job_takes_the_lease_of_its_previous_start(tmp_path):
    elsewhere(tmp_path, job="5", restarts="0")
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, env={"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "1"})


@pytest.mark.parametrize("holder, mine, free", [("9", "10", True), ("10", "9", False), ("1", None, False), ("1", "1", False)])
def test_a_restart_takes_the_lease_only_from_earlier_starts(tmp_path, holder, mine, free):
    """A process of the first start that survived may come late."""
    elsewhere(tmp_path, job="5", restarts=holder)
    env = {"SLURM_JOB_ID": "5", **({"SLURM_RESTART_COUNT": mine} if mine else {})}
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, env=env, code=0 if free else 73)
    assert ("writes there; try" in text) != free


@pytest.mark.parametrize("holder, mine, free", [("3", "4", True), ("4", "4", False), ("5", "4", False), ("3", None, False)])
def test_a_generation_takes_the_lease_only_from_earlier_ones(tmp_path, holder, mine, free):
    elsewhere(tmp_path, run="0123456789abcdef", generation=holder)
    run = "0123456789abcdef" if mine else "fedcba9876543210"
    env = {"ROLLCALL_RUN": run, "ROLLCALL_GENERATION": mine or "4"}
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, env=env, code=0 if free else 73)
    assert ("writes there; try" in text) != free


@pytest.mark.parametrize("answer, code, free", [
    ("", 0, True), ("PENDING", 0, True), ("slurm_load_jobs error: Invalid job id specified", 1, True),
    ("RUNNING", 0, False), ("SUSPENDED", 0, False), ("Unable to contact slurm controller", 1, False)])
def test_squeue_decides_whether_the_job_of_the_holder_has_ended(tmp_path, answer, code, free):
    programs = tmp_path / "programs"
    programs.mkdir()
    squeue = programs / "squeue"
    squeue.write_text(f'#!/bin/sh\n[ "$*" = "--noheader --format=%T --jobs=77" ] || exit 9\necho "{answer}"\nexit {code}\n')
    squeue.chmod(0o755)
    elsewhere(tmp_path / "run", job="77", cluster="here")
    trainer_ranks.run(tmp_path / "run", *OPTIONS, "--max-steps=1", "--lease-timeout=9", ranks=1, code=0 if free else 73,
                      env={"PATH": f"{programs}:{os.environ['PATH']}", "SLURM_CLUSTER_NAME": "here"})


@pytest.mark.long
@pytest.mark.parametrize("what", ["renewed", "of another cluster"])
def test_squeue_is_ignored_for_renewed_leases_and_other_clusters(tmp_path, what):
    """PrivateData hides a job that runs; two clusters with one file system both have a job 77."""
    squeue = tmp_path / "programs" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\necho Invalid job id specified\nexit 1\n")
    squeue.chmod(0o755)
    run = tmp_path / "run"
    elsewhere(run, job="77", cluster="there" if what == "of another cluster" else "here")
    process = trainer_ranks.start(run, *OPTIONS, "--max-steps=1", "--lease-timeout=9", ranks=1,
                                  env={"PATH": f"{squeue.parent}:{os.environ['PATH']}", "SLURM_CLUSTER_NAME": "here"})
    process[0].stderr.readline()
    with renewing(run / "lease.json") if what == "renewed" else contextlib.nullcontext():
        trainer_ranks.finish(process, 73)


def test_a_run_that_lost_its_lease_exits_without_saving(tmp_path):
    """It was suspended for so long that the other run considered it dead."""
    process = running(tmp_path)
    elsewhere(tmp_path, nonce="4567")
    text = process.communicate(timeout=120)
    assert process.returncode == 73 and "another run, which considered this one dead, writes there now" in text[1]
    assert trainer_ranks.checkpoints(tmp_path) == [] and lease(tmp_path)["nonce"] == "4567"


def test_a_run_that_loses_its_lease_during_validation_saves_nothing(tmp_path):
    """A validation has no steps, at which the lease would be checked."""
    options = ("--fake-size=4000", "--max-steps=1", "--valid-epochs=1", "--checkpoint-steps=0")  # a long validation
    process = running(tmp_path, *options)
    holder = lease(tmp_path)
    (tmp_path / "lease.json").write_text(json.dumps({**holder, "nonce": "another"}))
    text = trainer_ranks.finish([process], 73)
    assert "another run, which considered this one dead, writes there now" in text
    assert trainer_ranks.checkpoints(tmp_path) == []


@pytest.mark.parametrize("successor", ["runs", "has ended"])
def test_a_run_that_loses_its_lease_during_a_save_discards_it(tmp_path, successor):
    """It is stopped in the middle of a write. The other run saves meanwhile, and may have ended and released its lease."""
    process = running(tmp_path, "--checkpoint-steps=3", "--checkpoint-overlap=wait")
    while not any(".tmp-" in path.name for path in tmp_path.iterdir()):
        assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    there = {path.name for path in trainer_ranks.checkpoints(tmp_path)}
    (tmp_path / "step-00000900.h5").write_bytes(b"of the other one")
    if successor == "runs":
        elsewhere(tmp_path, nonce="4567")
    else:
        (tmp_path / "lease.json").unlink()
    process.send_signal(signal.SIGCONT)
    text = process.communicate(timeout=120)
    assert process.returncode == 73 and "another run, which considered this one dead, writes there now" in text[1]
    assert {path.name for path in tmp_path.glob("step-*")} == {*there, "step-00000900.h5"}
    assert (tmp_path / "lease.json").exists() == (successor == "runs")


@pytest.mark.long
def test_an_invalid_lease_file_expires(tmp_path):
    (tmp_path / "lease.json").write_text("{")
    process = trainer_ranks.start(tmp_path, *OPTIONS, "--max-steps=1", "--lease-timeout=16", ranks=1)
    trainer_ranks.finish(process)
    assert not pathlib.Path(tmp_path / "lease.json").exists()


def test_a_stale_lease_that_cannot_be_removed_is_an_error(tmp_path):
    """In a sticky shared folder, the lease of another user's killed run cannot be removed, and waiting for it is useless."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can make a file of another user, and then do without what root may")
    end(running(tmp_path), signal.SIGKILL)
    tmp_path.chmod(0o1777)
    for path in (tmp_path, tmp_path / "lease.json"):
        os.chown(path, 4711, 4711)
    command = ["setpriv", "--bounding-set=-fowner", "--inh-caps=-fowner", trainer_ranks.PROGRAM, f"--checkpoint-dir={tmp_path}",
               "--rendezvous=file", f"--rendezvous-folder={tmp_path}", *OPTIONS, "--max-steps=1"]
    done = subprocess.run([str(word) for word in command], env=trainer_ranks.environment(tmp_path, 0, 1), capture_output=True, text=True,
                          check=False, timeout=120)
    assert done.returncode == 73, done.stdout + done.stderr
    assert "lease.json: is of a run that has ended, but cannot be removed: belongs to user 4711; try having its owner remove it" in done.stderr
