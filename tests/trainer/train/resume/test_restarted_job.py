"""From what a job restarted by Slurm resumes, and when it refuses to start over."""
import json
import os
import shutil
import signal
import subprocess
import time

import agents
import pytest
import trainer_ranks
from folder_runs import OPTIONS

pytestmark = pytest.mark.python
pytest.importorskip("h5py")


def resume_option_of_first_start(folder, resume):
    """--resume=never, or a file of another training, which says where a job's first start begins."""
    if resume == "never":
        return "--resume=never"
    trainer_ranks.run(folder / "other", *OPTIONS, "--max-steps=1", ranks=1)
    return f"--resume={folder}/other/step-00000001.h5"


@pytest.mark.parametrize("resume", ["never", pytest.param("FILE", marks=pytest.mark.long)])
def test_a_restarted_job_resumes_from_its_own_checkpoint(tmp_path, resume):
    """--resume=never or FILE says where the job's first start begins; its restarts would else lose what that did."""
    given = resume_option_of_first_start(tmp_path, resume)
    run = tmp_path / "run"
    trainer_ranks.run(run, *OPTIONS, "--max-steps=9", ranks=1, env={"SLURM_JOB_ID": "4"})  # of an earlier job, further on
    job = {"SLURM_JOB_ID": "5"}
    first = trainer_ranks.run(run, *OPTIONS, given, "--max-steps=2", ranks=1, env={**job, "SLURM_RESTART_COUNT": "1"})
    assert "at epoch 1, step 9" not in first and "nothing is left" not in first
    again = trainer_ranks.run(run, *OPTIONS, given, "--max-steps=3", ranks=1, env={**job, "SLURM_RESTART_COUNT": "2"})
    assert f"resumed from {run}/step-00000002.h5" in again
    (run / "metrics.jsonl").unlink()  # the checkpoints tell as well
    again = trainer_ranks.run(run, *OPTIONS, given, "--max-steps=3", ranks=1, env={**job, "SLURM_RESTART_COUNT": "3"})
    assert f"{run}/step-00000003.h5 is the end of this training" in again


@pytest.mark.parametrize("resume", ["never", pytest.param("FILE", marks=pytest.mark.long)])
def test_a_restarted_job_resumes_from_a_later_job_of_the_same_training(tmp_path, resume):
    """Preempted and pending for days, while the same training was submitted to another partition."""
    given = resume_option_of_first_start(tmp_path, resume)
    run, job = tmp_path / "run", {"SLURM_JOB_ID": "5"}
    trainer_ranks.run(run, *OPTIONS, given, "--max-steps=2", ranks=1, env=job)
    trainer_ranks.run(run, *OPTIONS, "--max-steps=6", "--keep-last=1", ranks=1, env={"SLURM_JOB_ID": "6"})
    again = trainer_ranks.run(run, *OPTIONS, given, "--max-steps=7", ranks=1, env={**job, "SLURM_RESTART_COUNT": "1"})
    assert f"resumed from {run}/step-00000006.h5" in again
    assert not list(run.glob("*.superseded"))


@pytest.mark.parametrize("resume", ["never", pytest.param("FILE", marks=pytest.mark.long)])
def test_a_restarted_job_with_damaged_checkpoints_does_not_start_over(tmp_path, resume):
    given = resume_option_of_first_start(tmp_path, resume)
    run, job = tmp_path / "run", {"SLURM_JOB_ID": "5"}
    trainer_ranks.run(run, *OPTIONS, given, "--max-steps=2", ranks=1, env=job)
    file = trainer_ranks.checkpoints(run)[0]
    file.write_bytes(file.read_bytes()[:1000])
    again = (*OPTIONS, given, "--max-steps=3")
    text = trainer_ranks.run(run, *again, ranks=1, code=65, env={**job, "SLURM_RESTART_COUNT": "1"})
    assert "holds only damaged checkpoints" in text and not list(run.glob("*.superseded"))


def test_a_restarted_job_ignores_checkpoints_of_other_users(tmp_path):
    """A colleague's training goes on in the colleague's folder; its newest is not what this job wrote."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of another user")
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=5", "--checkpoint-steps=2", "--checkpoint-overlap=wait", ranks=1)
    theirs = trainer_ranks.checkpoints(tmp_path)
    assert [path.name for path in theirs] == ["step-00000002.h5", "step-00000004.h5", "step-00000005.h5"]
    for path in (*theirs, tmp_path / "metrics.jsonl"):
        os.chown(path, 4711, 4711)
    given = (*OPTIONS, f"--run-dir={tmp_path}/mine", f"--resume={theirs[0]}")
    job = {"SLURM_JOB_ID": "5"}
    trainer_ranks.run(tmp_path, *given, "--max-steps=3", ranks=1, env=job)
    for restarts in ("1", "2"):
        text = trainer_ranks.run(tmp_path, *given, "--max-steps=3", ranks=1, env={**job, "SLURM_RESTART_COUNT": restarts})
        assert f"{tmp_path}/step-00000003.h5 is the end of this training" in text
    assert all(path.exists() for path in theirs)


def test_a_restarted_job_without_its_checkpoints_does_not_start_over(tmp_path):
    trainer_ranks.run(tmp_path / "other", *OPTIONS, "--max-steps=1", ranks=1)
    run, job = tmp_path / "run", {"SLURM_JOB_ID": "5"}
    options = (*OPTIONS, f"--resume={tmp_path}/other/step-00000001.h5", "--max-steps=2")
    trainer_ranks.run(run, *options, ranks=1, env=job)
    trainer_ranks.checkpoints(run)[0].unlink()
    text = trainer_ranks.run(run, *options, ranks=1, code=66, env={**job, "SLURM_RESTART_COUNT": "1"})
    assert "one of step 2 was written" in text


def test_resuming_from_an_older_checkpoint_than_recorded_is_a_warning(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=4", "--checkpoint-steps=2", "--checkpoint-overlap=wait", ranks=1)
    assert "is gone" not in trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=5", ranks=1)
    for path in trainer_ranks.checkpoints(tmp_path)[1:]:
        path.unlink()
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", ranks=1)
    assert "its newest readable checkpoint is of step 2, but " in text
    assert "records that one of step 5 was written there and is gone" in text
    assert "is gone" not in trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", ranks=1)


def test_checkpoints_of_another_training_in_the_same_job_are_ignored(tmp_path):
    """A job that runs two trainings, one after the other, with a common --run-dir."""
    shared = (*OPTIONS, f"--run-dir={tmp_path}/records", "--max-steps=1")
    one, two = (f"--checkpoint-dir={tmp_path}/{name}" for name in ("one", "two"))
    trainer_ranks.run(tmp_path, *OPTIONS, two, "--max-steps=9", ranks=1, env={"SLURM_JOB_ID": "4"})
    trainer_ranks.run(tmp_path, *shared, one, "--resume=never", ranks=1, env={"SLURM_JOB_ID": "5"})
    text = trainer_ranks.run(tmp_path, *shared, two, "--resume=never", ranks=1, env={"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "1"})
    assert "starts at step 0, because of --resume=never" in text


def test_a_restarted_job_ignores_a_dangling_link(tmp_path):
    """It was interrupted before its first save; the folder holds an earlier job's work."""
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=1, env={"SLURM_JOB_ID": "4"})
    (tmp_path / "step-00000001.h5").symlink_to("nowhere")
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", ranks=1, env={"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "1"})
    assert f"resumed from {tmp_path}/step-00000002.h5" in text


def test_a_folder_whose_link_now_leads_elsewhere_is_reported_empty(tmp_path):
    """Maintenance: /scratch is another file system now."""
    for disk in ("disk1", "disk2"):
        (tmp_path / disk).mkdir()
    link = tmp_path / "scratch"
    link.symlink_to("disk1")
    given = (*OPTIONS, f"--checkpoint-dir={link}/run", f"--run-dir={tmp_path}/records", "--max-steps=2")
    trainer_ranks.run(tmp_path, *given, ranks=1)
    link.unlink()
    link.symlink_to("disk2")
    assert "one of step 2 was written" in trainer_ranks.run(tmp_path, *given, ranks=1, code=66)


def test_a_restarted_job_resumes_from_its_staged_checkpoint(tmp_path):
    run, stage, job = tmp_path / "run", tmp_path / "stage", {"SLURM_JOB_ID": "5"}
    stage.mkdir()
    options = (*OPTIONS, f"--checkpoint-stage={stage}")
    trainer_ranks.run(run, *options, "--max-steps=2", ranks=1, env=job)
    trainer_ranks.run(tmp_path / "longer", *OPTIONS, "--max-steps=4", ranks=1, env=job)
    shutil.copy(tmp_path / "longer" / "step-00000004.h5", next(stage.iterdir()))
    again = trainer_ranks.run(run, *options, "--resume=never", "--max-steps=5", ranks=1, env={**job, "SLURM_RESTART_COUNT": "1"})
    assert "the checkpoint of step 4 was still in" in again and f"resumed from {run}/step-00000004.h5" in again


def test_a_folder_whose_checkpoints_were_deleted_is_rejected(tmp_path):
    """The site deletes old files; what is left of a month are its records, which a run at step 0 would go on to write."""
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=1)
    trainer_ranks.checkpoints(tmp_path)[0].unlink()
    before = (tmp_path / "metrics.jsonl").read_text()
    for job in ({}, {"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "1"}):
        text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", ranks=1, code=66, env=job)
        assert f"rollcall: --resume: auto: {tmp_path} holds no checkpoint, but" in text and "one of step 2 was written" in text
    assert (tmp_path / "metrics.jsonl").read_text() == before
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", "--resume=never", ranks=1)
    assert "starts at step 0, because of --resume=never" in text and "warning" not in text
    trainer_ranks.checkpoints(tmp_path)[0].unlink()
    assert "of step 1 was written" in trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, code=66)


def test_a_restarted_job_with_resume_never_misses_deleted_checkpoints(tmp_path):
    """--resume=never applies to its first start only."""
    job = {"SLURM_JOB_ID": "5"}
    options = (*OPTIONS, "--max-steps=1", "--resume=never")
    trainer_ranks.run(tmp_path, *options, ranks=1, env=job)
    trainer_ranks.checkpoints(tmp_path)[0].unlink()
    text = trainer_ranks.run(tmp_path, *options, ranks=1, code=66, env={**job, "SLURM_RESTART_COUNT": "1"})
    assert "a new job with --resume=never" in text
    trainer_ranks.run(tmp_path, *options, ranks=1, env={"SLURM_JOB_ID": "6"})


def test_a_job_restarted_before_its_first_checkpoint_starts_over(tmp_path):
    job = {"SLURM_JOB_ID": "5"}
    process = trainer_ranks.start(tmp_path, *OPTIONS, "--fake-size=100000", ranks=1, env=job)[0]
    while "step 1/" not in process.stdout.readline():
        assert process.poll() is None
    process.kill()
    process.communicate()
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, env={**job, "SLURM_RESTART_COUNT": "1"})
    assert f"starts at step 0: no checkpoint in {tmp_path}" in text
    assert [line for line in text.splitlines() if "warning" in line and "squeue did not answer" not in line] == []  # no Slurm here


def test_a_restarted_job_without_records_or_checkpoints_warns(tmp_path):
    text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=1", ranks=1, env={"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "2"})
    assert "warning: job 5 was restarted (restart count 2), but" in text


def test_checkpoints_written_to_another_folder_are_reported(tmp_path):
    records = f"--run-dir={tmp_path}/records"
    trainer_ranks.run(tmp_path / "one", *OPTIONS, records, "--max-steps=2", ranks=1)
    text = trainer_ranks.run(tmp_path / "two", *OPTIONS, records, "--max-steps=1", ranks=1)
    assert f"one of step 2 was written to another folder ({tmp_path}/one)" in text


def test_a_folder_is_recognised_by_any_path(tmp_path):
    """What a job script writes differs from what was typed: a slash at the end, a relative path, the site's link to a disk."""
    run, link = tmp_path / "run", tmp_path / "link"
    trainer_ranks.run(run, *OPTIONS, f"--checkpoint-dir={run}/", "--max-steps=2", ranks=1)
    trainer_ranks.checkpoints(run)[0].unlink()
    link.symlink_to(run)
    for name in (run, link, os.path.relpath(run)):
        given = (f"--checkpoint-dir={name}", f"--run-dir={run}")
        text = trainer_ranks.run(run, *OPTIONS, *given, "--max-steps=3", ranks=1, code=66)
        assert "one of step 2 was written" in text


def test_trainings_with_two_run_names_may_share_a_run_dir(tmp_path):
    shared = ("--checkpoint-dir=", f"--run-dir={tmp_path}/records", "--max-steps=1")
    for name in ("one", "two"):
        text = trainer_ranks.run(tmp_path, *OPTIONS, *shared, f"--run-name={name}", ranks=1, env={"SCRATCH": str(tmp_path)})
        assert (tmp_path / "rollcall" / name / "checkpoints" / "step-00000001.h5").exists()
    assert "one of step 1 was written to another folder" in text


# ---------------------------------------------------------------- later generations of `rollcall run`

RUN_OPTIONS = (*trainer_ranks.SMALL, "--fake-size=400", "--valid-epochs=0", "--checkpoint-epochs=0", "--checkpoint-steps=2", "--max-steps=40",
               "--checkpoint-mode=sync", "--keep-last=100", "--lr=0.001")


def has_saved(folder, step):
    """Whether that checkpoint is in the records: a run that is killed between its file and its record has not reported it."""
    record = f'"event":"checkpoint","step":{step},"written":true'
    return lambda: (folder / "metrics.jsonl").exists() and record in (folder / "metrics.jsonl").read_text()


def run_and_kill_once(folder, is_time, *options):
    """The records of starts after `rollcall run` of one worker that is killed once, when it is time."""
    environment = {key: value for key, value in trainer_ranks.environment(folder, 0, 1).items() if not key.startswith("TORCHELASTIC")}
    command = [agents.ROLLCALL, "run", "--standalone", "--max-restarts=1", "--no-python", trainer_ranks.PROGRAM, f"--checkpoint-dir={folder}",
               *RUN_OPTIONS, *options]
    process = subprocess.Popen([str(c) for c in command], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not is_time():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    [worker] = [pid for pid in agents.living_in_sessions_with(f"--checkpoint-dir={folder}") if pid != process.pid]
    os.kill(worker, signal.SIGKILL)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    return trainer_ranks.records(folder, "begin")


@pytest.mark.parametrize("given", ["never", pytest.param("FILE", marks=pytest.mark.long)])
def test_a_later_generation_resumes_from_checkpoints_of_its_run(tmp_path, given):
    before, folder = tmp_path / "before", tmp_path / "run"
    trainer_ranks.run(before, *RUN_OPTIONS, "--max-steps=2", ranks=1)
    trainer_ranks.run(folder, *RUN_OPTIONS, "--max-steps=3", "--seed=9", "--checkpoint-steps=3", ranks=1)  # another training was here
    resume = "never" if given == "never" else before / "step-00000002.h5"
    begins = run_and_kill_once(folder, has_saved(folder, 4), f"--resume={resume}")
    first, second = begins[-2:]
    assert first["step"] == (0 if given == "never" else 2) and second["step"] >= 4
    assert first["run"] == second["run"] != ""
    assert [path.name for path in folder.glob("*.superseded*")] == ["step-00000003.h5.superseded"]
    assert (folder / "step-00000040.h5").exists()


def test_a_second_run_does_not_resume_checkpoints_of_the_first(tmp_path):
    """--resume=never of a second run begins again, also in a generation before its first save: the saves are the first run's."""
    run_and_kill_once(tmp_path, has_saved(tmp_path, 4), "--resume=never")

    def has_begun():
        return (tmp_path / "metrics.jsonl").read_text().count('"event":"begin"') == 3

    begins = run_and_kill_once(tmp_path, has_begun, "--resume=never", "--checkpoint-steps=1000")
    assert [begin["step"] > 0 for begin in begins] == [False, True, False, False]
    assert begins[0]["run"] == begins[1]["run"] != begins[2]["run"] == begins[3]["run"]


def test_only_slurm_restarts_without_progress_are_counted(tmp_path):
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=1, env={"SLURM_JOB_ID": "5"})
    records = tmp_path / "metrics.jsonl"
    before = records.read_text()
    begin = {**json.loads(before.splitlines()[0]), "step": 2}
    assert begin["event"] == "begin" and begin["job"] == "5" and begin["restart_count"] == 0

    def restarted(starts, then=(), steps=3, code=0, count=6):
        """What restart number `count` says after such starts, each of which recorded `then`."""
        lines = [json.dumps(record) for start in starts for record in ({**begin, **start}, *then)]
        records.write_text(before + "".join(line + "\n" for line in lines))
        text = trainer_ranks.run(tmp_path, *OPTIONS, f"--max-steps={steps}", ranks=1, code=code,
                                 env={"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": str(count)})
        assert code or trainer_ranks.records(tmp_path, "begin")[-1]["restart_count"] == count
        (tmp_path / "step-00000003.h5").unlink(missing_ok=True)
        return text

    five = [{"restart_count": number} for number in range(1, 6)]
    said = restarted(five, code=64)
    assert "rollcall: job: 5: was started 5 times at step 2, and no start recorded a step or wrote a new checkpoint" in said
    restarted(five, [{"event": "failed", "step": 2, "error": "of the trainer"}], code=64)
    restarted(five, [{"event": "checkpoint", "step": 3, "written": False}], code=64)
    assert "nothing is left to do" in restarted(five, steps=2)  # a complete training, in a script with another one behind it
    restarted(five, [{"event": "end", "step": 2, "ending": "interrupted, a checkpoint was saved: submit again to continue"}])
    restarted(five, [{"event": "step", "step": 3}])  # preempted without notice in a long epoch
    restarted(five, [{"event": "checkpoint", "step": 2, "written": True}])  # with the outcome of its validation
    restarted([{"restart_count": 1}] * 9)  # several steps of one start
    restarted([*five[:4], {"restart_count": 6}])  # an earlier step of this start
    restarted([{**start, "job": "4"} for start in five])
    restarted([{**start, "checkpoint_folder": "/other", "resolved_checkpoint_folder": "/other"} for start in five])

    ten = [{"restart_count": number} for number in range(1, 11)]
    saved = {"event": "checkpoint", "step": 2, "written": True}
    interrupted = [saved, {"event": "end", "step": 2, "ending": "interrupted, a checkpoint was saved: submit again to continue"}]
    said = restarted(ten, interrupted, code=64, count=11)
    assert "rollcall: job: 5: was started 10 times at step 2, and no start recorded a later step; try " in said
    restarted(ten[:9], interrupted, count=10)
    restarted(ten, [{"event": "validation", "step": 2}, *interrupted], count=11)
    restarted(ten, [{"event": "end", "step": 2, "ending": "finished"}], count=11)  # early stopping, in a script with a later part
    restarted(ten, [saved, {**interrupted[1], "step": 3}], count=11)  # killed between the save and the record of it


def test_unreadable_records_do_not_prevent_a_restarted_job_from_resuming(tmp_path):
    """As the first start did, until they are to be written."""
    trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=2", ranks=1, env={"SLURM_JOB_ID": "5"})
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").mkdir()
    for restarts in ("0", "1"):
        text = trainer_ranks.run(tmp_path, *OPTIONS, "--max-steps=3", ranks=1, code=73,
                                 env={"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": restarts})
        assert "metrics.jsonl: cannot be opened for appending" in text


@pytest.mark.long
def test_restarts_without_a_checkpoint_are_limited(tmp_path):
    """Five restarts may have been bad luck. A new submission is allowed again."""
    options = [*OPTIONS, "--max-steps=100000", "--checkpoint-epochs=0", "--log-steps=100000"]

    def start_in_vain(restarts, job="5"):
        env = {"SLURM_JOB_ID": job, **({"SLURM_RESTART_COUNT": str(restarts)} if restarts else {})}
        before = begun()
        training = trainer_ranks.start(tmp_path, *options, ranks=1, env=env)[0]
        agents.wait_until(lambda: begun() > before or training.poll() is not None)
        training.kill()
        training.communicate()
        return training.returncode

    def begun():
        records = tmp_path / "metrics.jsonl"
        return records.read_text().count('"event":"begin"') if records.exists() else 0

    for restarts in range(5):
        assert start_in_vain(restarts) == -signal.SIGKILL
    said = trainer_ranks.run(tmp_path, *options, ranks=1, code=64, env={"SLURM_JOB_ID": "5", "SLURM_RESTART_COUNT": "5"})
    assert "rollcall: job: 5: was started 5 times at step 0, and no start recorded a step" in said
    assert start_in_vain(0, job="6") == -signal.SIGKILL
    assert start_in_vain(1, job="6") == -signal.SIGKILL
