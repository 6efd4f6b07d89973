"""rollcall-train under a real Slurm: joining, training, bad input, signals, resume."""

import contextlib
import json
import os
import pathlib
import re
import signal

import pytest

from minicluster import SOURCE, poll

pytestmark = pytest.mark.slurm
SMALL = ("--data=fake", "--model=resnet20", "--image-size=32", "--batch-size=8", "--optimizer=sgd", "--lr-schedule=none", "--lr=0.01",
         "--progress=lines",
         "--log-steps=1", "--valid-epochs=0")
MESSAGE = re.compile(r"^rollcall: (?!warning).*$", re.M)


@pytest.fixture
def train(cluster, rollcall_train, tmp_path):
    """train("--option", ranks=4, nodes=2): runs rollcall-train in a step; checkpoints below a folder of the test's own."""
    def run(*options, nodes=2, ranks=4, srun=(), env=None, check=False, ddp="--ddp"):
        return cluster.run("srun", *([ddp] if ddp else []), f"-N{nodes}", f"-n{ranks}", f"--ntasks-per-node={ranks // nodes}",
                           "--kill-on-bad-exit=1", *srun, rollcall_train, *options,
                           env={"SCRATCH": str(tmp_path), "OMP_NUM_THREADS": "1", **(env or {})}, check=check, timeout=120)
    return run


def checkpoints(folder):
    return sorted(folder.rglob("step-*.h5"))


def records(folder):
    (path,) = folder.rglob("metrics.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def rank_ended_with(code, result):
    """srun's own exit code may be 143: a rank whose LibTorch is still being loaded cannot yet choose how Slurm's SIGTERM ends it."""
    return f": Exited with exit code {code}\n" in result.stderr and result.returncode in (code, 143)


@pytest.mark.parametrize("mpi", ["none", "pmix"])
@pytest.mark.parametrize("ddp", ["--ddp", None])
def test_rendezvous_works_with_and_without_plugin_and_pmix(train, mpi, ddp):
    env = {} if ddp else {"ROLLCALL_SITE_CONFIG": str(SOURCE / "site_config" / "minicluster.toml")}
    result = train("--dry-run", srun=(f"--mpi={mpi}",), ddp=ddp, env=env, check=True)
    assert result.stdout.count("DONE ") == 4
    assert f"rendezvous {'pmix' if mpi == 'pmix' else 'address'} " in result.stdout


def test_trace_startup_lists_every_stage(train):
    stages = ["fork, exec, dynamic link", "library constructors", "settings", "bootstrap", "rendezvous", "store", "process group",
              "first collective"]
    table = train("--dry-run", "--trace-startup", check=True).stdout
    assert [stage for stage in stages if f"\n{stage} " in table] == stages
    (line,) = [line for line in train("--dry-run", "--trace-startup", "--json", check=True).stdout.splitlines() if line[0] == "{"]
    trace = json.loads(line)
    assert [stage["stage"] for stage in trace["stages"]] == stages
    assert abs(trace["total_ms"] - sum(stage["wall_ms"] for stage in trace["stages"])) < 1


def test_rendezvous_through_a_file_needs_neither_pmix_nor_a_port(train, tmp_path):
    result = train("--dry-run", "--rendezvous=file", f"--rendezvous-folder={tmp_path}", check=True)
    assert "rendezvous file " in result.stdout
    assert not list(tmp_path.glob("*.endpoint"))


def test_two_concurrent_steps_do_not_interfere(cluster, rollcall_train):
    script = f"""#!/bin/sh
srun --ddp --overlap -N2 -n2 --ntasks-per-node=1 {rollcall_train} --dry-run &
srun --ddp --overlap -N2 -n2 --ntasks-per-node=1 {rollcall_train} --dry-run &
wait"""
    output = cluster.batch(script, "-N2", "--ntasks-per-node=2")
    assert output.count("DONE ") == 4, output


def test_trains_and_writes_metrics_and_a_checkpoint(train, tmp_path):
    result = train(*SMALL, "--max-steps=3", "--train-num-workers=2", check=True)
    steps = [r for r in records(tmp_path) if r["event"] == "step"]
    assert [r["step"] for r in steps] == [1, 2, 3]
    assert all(r["samples"] == 32 for r in steps)
    assert [p.name for p in checkpoints(tmp_path)] == ["step-00000003.h5"]
    assert "finished" in result.stdout


def test_training_does_not_depend_on_the_number_of_workers(train, tmp_path):
    losses = []
    for workers in (0, 3):
        train(*SMALL, "--max-steps=3", f"--train-num-workers={workers}", f"--checkpoint-dir={tmp_path}/w{workers}/c", check=True)
        losses.append([r["loss"] for r in records(tmp_path / f"w{workers}") if r["event"] == "step"])
    assert losses[0] == losses[1]


BAD_INPUT = [
    ("unknown option", ["--train-num-worker=2"], {}, 64, "--train-num-workers"),
    ("bad value", ["--batch-size=many"], {}, 64, "--batch-size: many"),
    ("unknown variable", [], {"ROLLCALL_BATCH_SIZ": "3"}, 64, "ROLLCALL_BATCH_SIZE"),
    ("missing data folder", ["--data=/nonexistent/images"], {}, 66, "/nonexistent/images"),
    ("batch larger than the data", [*SMALL, "--batch-size=1000"], {}, 64, "--batch-size: 1000"),
    ("unknown model", ["--model=resnet51"], {}, 64, "resnet50"),
    ("scaled betas below zero", [*SMALL, "--optimizer=adamw", "--adam-beta1=0.5", "--scale-optim-params"], {}, 64, "beta"),
    ("degrees that do not fit", [*SMALL, "--parallel=fsdp", "--shard-degree=3"], {}, 64, "--shard-degree: 3"),
    ("sharding's options without sharding", [*SMALL, "--param-dtype=bf16"], {}, 64, "--parallel=fsdp"),
    ("offload of shards without any", [*SMALL, "--cpu-offload=on"], {}, 64, "--parallel=fsdp"),
    ("PMIx absent", ["--rendezvous=pmix", "--dry-run"], {}, 69, "--mpi=pmix"),
    ("unwritable checkpoint folder", [*SMALL, "--checkpoint-dir=/proc/nowhere"], {}, 73, "/proc/nowhere"),
    ("user's WORLD_SIZE contradicts the step", ["--dry-run"], {"RANK": "0", "WORLD_SIZE": "3"}, 76, "WORLD_SIZE"),
    ("resume from a file that is not there", [*SMALL, "--resume=/nonexistent/x.h5"], {}, 66, "/nonexistent/x.h5"),
]


@pytest.mark.parametrize("options,env,code,names", [b[1:] for b in BAD_INPUT], ids=[b[0] for b in BAD_INPUT])
def test_bad_input_gives_one_error_line_and_ends_the_step(train, tmp_path, options, env, code, names):
    env = {"ROLLCALL_RENDEZVOUS_TIMEOUT": "3600", **env}  # so that a step which waits for others does not end in time
    result = train(*options, env=env, ddp=None if "WORLD_SIZE" in env else "--ddp")
    messages = MESSAGE.findall(result.stderr)
    assert rank_ended_with(code, result), result.stderr
    assert len(messages) == 1, result.stderr
    assert names in messages[0] and "; try " in messages[0]
    assert not checkpoints(tmp_path)


def test_empty_class_is_named(train, tmp_path, digits):
    tree = tmp_path / "images"
    for name in ("train/a", "train/b", "val/a", "val/b"):
        (tree / name).mkdir(parents=True)
    for name in ("train/a", "val/a", "val/b"):
        (tree / name / "x.png").write_bytes(next(digits.rglob("*.png")).read_bytes())
    result = train(*SMALL, f"--data={tree}")
    assert result.returncode == 65
    assert len(MESSAGE.findall(result.stderr)) == 1 and "train/b" in result.stderr


def test_a_corrupt_image_is_skipped_with_a_warning_or_fails(train, tmp_path, digits):
    tree = tmp_path / "images"
    images = sorted(digits.rglob("train/3/*.png"))[:40]
    for part in ("train", "val"):
        (tree / part / "3").mkdir(parents=True)
        for image in images:
            (tree / part / "3" / image.name).write_bytes(image.read_bytes())
    broken = tree / "train" / "3" / images[7].name
    broken.write_bytes(broken.read_bytes()[:60])
    options = (*SMALL, f"--data={tree}", "--epochs=1", "--batch-size=10")
    result = train(*options, check=True)
    assert broken.name in result.stderr
    assert [r for r in records(tmp_path) if r["event"] == "step"][0]["samples"] == 39
    result = train(*options, "--bad-samples=fail", "--resume=never")
    assert result.returncode == 65, result.stderr
    assert len(MESSAGE.findall(result.stderr)) == 1 and broken.name in result.stderr


def test_more_workers_than_cpus_is_a_warning(train):
    result = train(*SMALL, "--max-steps=1", "--train-num-workers=64", check=True)
    assert result.stderr.count("rollcall: warning: --train-num-workers: 64: ") == 1


def test_port_in_use_is_named(cluster, train):
    import socket
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = train("--dry-run", env={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
    assert rank_ended_with(69, result)
    messages = MESSAGE.findall(result.stderr)
    assert len(messages) == 1 and str(port) in messages[0] and "in use" in messages[0]


def test_head_name_that_does_not_resolve_is_named(train):
    result = train("--dry-run", ddp=None, env={"ROLLCALL_HOST_TEMPLATE": "nosuch-{host}.invalid"})
    assert rank_ended_with(69, result)
    messages = MESSAGE.findall(result.stderr)
    assert len(messages) == 1 and re.search(r"nosuch-jwb\d+\.invalid", messages[0])  # whichever node Slurm gave


def test_a_checkpoint_of_another_model_is_rejected(train, tmp_path):
    train(*SMALL, "--max-steps=1", check=True)
    before = checkpoints(tmp_path)
    result = train(*SMALL, "--max-steps=2", "--model=resnet18")
    assert result.returncode == 76
    assert len(MESSAGE.findall(result.stderr)) == 1 and "--model was resnet20 and is resnet18" in result.stderr
    result = train(*SMALL, "--max-steps=2", "--model=resnet18", "--resume=continue-with-changes")
    assert result.returncode == 76
    assert len(MESSAGE.findall(result.stderr)) == 1 and "is of another model" in result.stderr
    assert checkpoints(tmp_path) == before


def test_a_damaged_checkpoint_falls_back_to_the_previous_one(train, tmp_path):
    train(*SMALL, "--max-steps=4", "--checkpoint-steps=2", check=True)
    newest = checkpoints(tmp_path)[-1]
    with newest.open("r+b") as file:
        file.seek(newest.stat().st_size // 2)
        file.write(b"damage" * 100)
    result = train(*SMALL, "--max-steps=6", check=True)
    assert newest.name in result.stderr
    assert "step 2" in result.stdout
    assert [r["step"] for r in records(tmp_path) if r["event"] == "step"][-4:] == [3, 4, 5, 6]


class RunningStep:
    """An srun in the background whose ranks report their progress."""

    def __init__(self, cluster, rollcall_train, folder, options, ranks=2, job="running"):
        self.log = folder / "running.out"
        script = folder / "running.sh"
        script.write_text(f"""#!/bin/bash
exec srun --ddp --kill-on-bad-exit=1 {rollcall_train} {' '.join(options)}
""")
        self.cluster = cluster
        result = cluster.run("sbatch", "--parsable", "-N2", f"--ntasks-per-node={ranks // 2}", f"--job-name={job}", "--no-requeue",
                             f"--output={self.log}", script, env={"SCRATCH": str(folder), "OMP_NUM_THREADS": "1"})
        self.job = result.stdout.strip()

    def wait_for_step(self, step, folder):
        def reached():
            return [p for p in folder.rglob("metrics.jsonl") if f'"step":{step},' in p.read_text()]
        poll(reached, f"step {step} of {self.log.read_text() if self.log.exists() else 'a job that did not start'}", 60)

    def rank_pids(self):
        """By rank."""
        return [pid for _, pid in sorted((self._rank(p), int(p)) for p in os.listdir("/proc") if p.isdigit() and self._rank(p) is not None)]

    def _rank(self, pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = dict(line.split(b"=", 1) for line in file.read().split(b"\0") if b"=" in line)
            with open(f"/proc/{pid}/comm") as file:
                named = file.read().startswith("rollcall-train")
        except OSError:
            return None
        is_rank = named and environment.get(b"SLURM_JOB_ID") == self.job.encode() and b"SLURM_PROCID" in environment
        return int(environment[b"SLURM_PROCID"]) if is_rank else None

    def wait(self):
        def state():
            text = self.cluster.run("scontrol", "show", "job", self.job).stdout
            return text if re.search(r"JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)", text) else None
        text = poll(state, "end of the job", 60)
        return int(re.search(r"ExitCode=(\d+):", text).group(1))


@pytest.mark.parametrize("name", ["TERM", "USR1"])
def test_a_signal_saves_a_checkpoint_at_the_next_step_and_ends_with_75(cluster, rollcall_train, tmp_path, name):
    step = RunningStep(cluster, rollcall_train, tmp_path, [*SMALL, "--epochs=1000"])
    step.wait_for_step(2, tmp_path)
    cluster.run("scancel", f"--signal={name}", step.job)
    assert step.wait() == 75, step.log.read_text()
    last = [r for r in records(tmp_path) if r["event"] == "step"][-1]["step"]
    assert checkpoints(tmp_path)[-1].name == f"step-{last:08d}.h5"


def test_a_run_saves_and_exits_before_the_time_limit(train, tmp_path):
    # Slurm 22.05 sets no SLURM_JOB_END_TIME: squeue is asked. Limits are whole minutes.
    result = train(*SMALL, "--epochs=1000", "--save-before-limit=112", srun=("--time=2",), ranks=2)
    assert result.returncode == 75, result.stderr
    assert "time limit is near" in result.stdout
    last = [r for r in records(tmp_path) if r["event"] == "step"][-1]["step"]
    assert checkpoints(tmp_path)[-1].name == f"step-{last:08d}.h5"


def test_an_array_task_uses_its_own_time_limit(cluster, rollcall_train, tmp_path):
    """squeue takes the job ID of one array task for the whole array, too."""
    script = f"#!/bin/sh\n{rollcall_train} {' '.join(SMALL)} --epochs=1000 --save-before-limit=112\n"
    output = cluster.batch(script, "--array=0-1", "-n1", "--time=2", env={"SCRATCH": str(tmp_path), "OMP_NUM_THREADS": "1"})
    assert "time limit is near" in output, output


def test_a_killed_rank_ends_the_step_with_at_most_one_message(cluster, rollcall_train, tmp_path):
    step = RunningStep(cluster, rollcall_train, tmp_path, [*SMALL, "--epochs=1000"])
    step.wait_for_step(2, tmp_path)
    os.kill(step.rank_pids()[0], signal.SIGKILL)
    assert step.wait() != 0
    assert len(MESSAGE.findall(step.log.read_text())) <= 1


@pytest.mark.parametrize("which", [0, -1], ids=["the store's holder", "another"])
def test_a_stopped_rank_is_named_once_and_the_step_ends(cluster, rollcall_train, tmp_path, which):
    step = RunningStep(cluster, rollcall_train, tmp_path, [*SMALL, "--epochs=1000", "--collective-timeout=3"])
    step.wait_for_step(2, tmp_path)
    stopped = step.rank_pids()[which]
    os.kill(stopped, signal.SIGSTOP)
    try:
        assert step.wait() != 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped, signal.SIGKILL)
    messages = MESSAGE.findall(step.log.read_text())
    # To end the step Slurm continues the stopped rank: it may tell, too.
    assert 1 <= len(messages) <= 2, messages
    assert "did not end within 3.0 s" in messages[0] and "it is stopped" in messages[0]


def test_training_runs_with_debug_collectives(train):
    train(*SMALL, "--max-steps=2", "--debug=collectives", "--parallel=fsdp", ranks=2, check=True)


def differing_tensors(path, other_path):
    """Names of the model's and optimizer's tensors whose bytes differ between two checkpoints."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path) as a, h5py.File(other_path) as b:
        names = []
        a.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        tensors = [n for n in names if n.startswith(("model/", "optimizer/state/"))]
        assert len(tensors) > 100
        return [n for n in tensors if a[n][()].tobytes() != b[n][()].tobytes()]


@pytest.mark.parametrize("ranks, more", [(2, ["--sync-bn"]), (4, []), (4, ["--parallel=fsdp"])], ids=["2-sync-bn", "4", "4-fsdp"])
def test_a_killed_and_resumed_run_is_bit_identical(cluster, rollcall_train, train, tmp_path, ranks, more):
    pytest.importorskip("h5py")
    options = [*SMALL, *more, "--epochs=2", "--fake-size=100", "--train-num-workers=2", "--checkpoint-steps=3"]
    train(*options, f"--checkpoint-dir={tmp_path}/whole/c", ranks=ranks, check=True)
    part = tmp_path / "part"
    part.mkdir()
    step = RunningStep(cluster, rollcall_train, part, [*options, f"--checkpoint-dir={part}/c"], ranks)
    step.wait_for_step(4, part)
    poll(lambda: checkpoints(part), "the checkpoint of step 3", 60)  # written in the background
    for pid in step.rank_pids()[:1]:
        with contextlib.suppress(ProcessLookupError):  # it was faster
            os.kill(pid, signal.SIGKILL)
    step.wait()
    resumed = train(*options, f"--checkpoint-dir={part}/c", ranks=ranks, check=True)
    whole, again = checkpoints(tmp_path / "whole")[-1], checkpoints(part)[-1]
    assert whole.name == again.name
    assert "resumed" in resumed.stdout or step.wait() == 0
    assert differing_tensors(whole, again) == []


def test_resume_with_other_parallelism_and_other_ranks(train, tmp_path):
    def run(folder, parallel, steps, ranks=2):
        result = train(*SMALL, f"--parallel={parallel}", "--fake-size=40", "--valid-epochs=1", "--clip-grad-norm=1", f"--max-steps={steps}",
                       f"--checkpoint-dir={tmp_path}/{folder}", "--optimizer=adamw", ranks=ranks, check=True)
        return result.stdout

    run("ddp", "ddp", 4)
    run("mixed", "fsdp", 2)
    assert "resumed" in run("mixed", "ddp", 3)
    assert "resumed" in run("mixed", "fsdp", 4)
    # Two ranks add in the same order whatever divides them.
    assert differing_tensors(checkpoints(tmp_path / "ddp")[-1], checkpoints(tmp_path / "mixed")[-1]) == []
    assert "resumed" in run("mixed", "fsdp", 6, ranks=4)
    assert "resumed" in run("mixed", "ddp", 7, ranks=4)


@pytest.mark.parametrize("parallel", [["--parallel=ddp"], ["--parallel=fsdp", "--accumulate=shards"]], ids=" ".join)
def test_grad_accumulation_counts_several_batches_as_one_step(train, tmp_path, parallel):
    def run(folder, steps):
        return train(*SMALL, *parallel, "--fake-size=120", "--grad-accumulation=3", f"--max-steps={steps}",
                     f"--checkpoint-dir={tmp_path}/{folder}/c", ranks=2, check=True).stdout

    whole = run("whole", 3)
    assert "48 images a step, 2 steps an epoch" in whole  # 102 of the 120 made-up images are for training
    steps = [r for r in records(tmp_path / "whole") if r["event"] == "step"]
    assert [(r["step"], r["epoch"], r["samples"]) for r in steps] == [(1, 0, 48), (2, 0, 48), (3, 1, 48)]
    assert steps[0]["learning_rate"] == pytest.approx(0.06)  # 0.01 x 2 ranks x 3 batches
    run("parts", 1)
    assert "resumed" in run("parts", 3)
    assert differing_tensors(checkpoints(tmp_path / "whole")[-1], checkpoints(tmp_path / "parts")[-1]) == []


@pytest.mark.long
def test_run_sbatch_stops_requeueing_a_job_without_checkpoints(cluster, rollcall_train, tmp_path):
    env = {"SCRATCH": str(tmp_path), "OMP_NUM_THREADS": "1", "PATH": f"{rollcall_train.parent}:{os.environ['PATH']}"}
    job = cluster.run("sbatch", "--parsable", "--ntasks-per-node=1", "--cpus-per-task=1", f"--output={tmp_path}/%x-%j.out",
                      SOURCE / "sbatch_templates" / "run.sbatch", *SMALL, "--max-steps=100000", "--checkpoint-epochs=0",
                      "--log-steps=100000",  # none is recorded before the signal
                      env=env).stdout.strip()

    def begun():
        return sum(file.read_text().count('"event":"begin"') for file in tmp_path.rglob("metrics.jsonl"))

    def signal_ranks(number):
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if b"--max-steps=100000" in (folder / "cmdline").read_bytes() and \
                        f"\0SLURM_JOB_ID={job}\0".encode() in (folder / "environ").read_bytes():
                    os.kill(int(folder.name), number)
    for start in range(1, 6):
        poll(lambda number=start: begun() == number, f"start {start}", 120)
        signal_ranks(signal.SIGSTOP)  # as where a node dies: they do not hear that they are to save
        cluster.run("scontrol", "requeue", job)
        signal_ranks(signal.SIGKILL)
    poll(lambda: "JobState=FAILED" in cluster.run("scontrol", "show", "job", job).stdout, "the job's end", 120)
    assert "ExitCode=64:0" in cluster.run("scontrol", "show", "job", job).stdout and begun() == 5
    output = (tmp_path / f"rollcall-{job}.out").read_text()
    assert output.count(f"rollcall: job: {job}: was started 5 times at step 0, and no start recorded a step") == 1


def test_run_sbatch_requeues_an_interrupted_job_until_it_finishes(cluster, rollcall_train, tmp_path):
    env = {"SCRATCH": str(tmp_path), "OMP_NUM_THREADS": "1", "PATH": f"{rollcall_train.parent}:{os.environ['PATH']}"}
    job = cluster.run("sbatch", "--parsable", "--ntasks-per-node=1", "--cpus-per-task=1", f"--output={tmp_path}/%x-%j.out",
                      SOURCE / "sbatch_templates" / "run.sbatch", *SMALL, "--max-steps=40", env=env).stdout.strip()
    log = tmp_path / f"rollcall-{job}.out"
    poll(lambda: [p for p in tmp_path.rglob("metrics.jsonl") if '"step":2,' in p.read_text()], "step 2", 60)
    cluster.run("scancel", "--signal=USR1", job)
    poll(lambda: "JobState=COMPLETED" in cluster.run("scontrol", "show", "job", job).stdout, "the requeued job's end", 120)
    output = log.read_text()
    assert "requeueing" in output and "resumed" in output, output
    assert f"Slurm job {job}, restart count 1" in output
    steps = [r["step"] for r in records(tmp_path) if r["event"] == "step"]
    assert steps == list(range(1, 41))


@pytest.mark.parametrize("front, warned", [([], 1), (["exec"], 1), (["srun", "--ddp", "-n2"], 0)])
def test_training_without_srun_in_a_two_node_job_warns_once(cluster, rollcall, rollcall_train, front, warned):
    launcher = [rollcall, "exec", "--"] if front == ["exec"] else front
    result = cluster.run("salloc", "-N2", *launcher, rollcall_train, "--dry-run")
    lines = [line for line in result.stderr.splitlines() if line.startswith("rollcall: ")]
    assert len(lines) == warned, result.stderr
    assert all("SLURM_JOB_NUM_NODES: 2: srun did not start this process" in line and "try srun --ddp" in line for line in lines)
