"""Runs rollcall-train as ranks of one run without Slurm, and reads what it left. Shared by tests of whole runs."""
import json
import os
import pathlib
import subprocess

BUILD = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"])
PROGRAM = BUILD / "trainer" / "rollcall-train"
# Small enough that a step takes a thirtieth of a second of one core.
SMALL = ("--data=fake", "--model=resnet20", "--image-size=32", "--batch-size=4", "--progress=lines")


def environment(folder, rank, ranks):
    """The ranks meet in a file: no port that somebody else may take. Nothing of a job that the tests themselves run in."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PMIX_", "PMI_", "OMPI_", "ROLLCALL_", "MASTER_"))}
    own = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1",
           "OMP_NUM_THREADS": 1, "GLOO_SOCKET_IFNAME": "lo", "SCRATCH": folder}
    return {**inherited, **{k: str(v) for k, v in own.items()}} if ranks > 1 else {
        **inherited, "OMP_NUM_THREADS": "1", "SCRATCH": str(folder)}


def start(folder, *options, ranks=2, env=None, prefixes=None):
    """The processes of a run whose checkpoints and metrics are in `folder`; `prefixes`: of the commands of some ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [PROGRAM, "--rendezvous=file", f"--rendezvous-folder={folder}", f"--checkpoint-dir={folder}", *options]
    return [subprocess.Popen([str(c) for c in [*(prefixes or {}).get(rank, ()), *command]], text=True,
                             env={**environment(folder, rank, ranks), **(env or {})},
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(ranks)]


def finish(processes, code=0, seconds=240):
    """What the ranks printed, together; all must have ended with `code`. Of an interrupted run (75) rank 0 alone says so."""
    outputs = [process.communicate(timeout=seconds) for process in processes]
    text = "".join(out + errors for out, errors in outputs)
    others = 0 if code == 75 else code
    assert [process.returncode for process in processes] == [code] + [others] * (len(processes) - 1), text
    return text


def run(folder, *options, ranks=2, code=0, env=None):
    return finish(start(folder, *options, ranks=ranks, env=env), code)


def records(folder, event):
    """Records of one kind in metrics.jsonl, without what is measured in seconds."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    timed = ("time", "steps", "images_per_second", "data_wait_fraction", "loader_utilisation_of_rank_0")
    return [{k: v for k, v in line.items() if k not in timed and "seconds" not in k and "memory" not in k}
            for line in lines if line["event"] == event]


def checkpoints(folder):
    return sorted(folder.glob("step-*.h5"))


def model_in(path):
    """{name: array} of the parameters and statistics in a checkpoint, in the model's order."""
    import h5py
    with h5py.File(path) as file:
        return {key: file["model/" + key.replace(".", "/")][()] for key in (name.decode() for name in file["model_keys"])}


def datasets(path):
    """{name: bytes} of every data set of a checkpoint but for the command line."""
    import h5py
    with h5py.File(path) as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        return {name: file[name][()].tobytes() if hasattr(file[name][()], "tobytes") else file[name][()]
                for name in names if not name.startswith(("config/", "manifest"))}


def differences(path, other_path):
    """Names of the data sets that differ between two checkpoints: parameters, moments, progress, generators."""
    a, b = datasets(path), datasets(other_path)
    assert len(a) > 100
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
