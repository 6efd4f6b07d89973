"""The batch scripts with GPUs, on simulated nodes like those of the sites that the examples are for."""

import json
import os
import shlex
import shutil

import pytest

from minicluster import RECORD_ENVIRONMENT, SOURCE, Minicluster, poll

pytestmark = [pytest.mark.slurm, pytest.mark.long]

TEMPLATES = SOURCE / "sbatch_templates"


@pytest.fixture(scope="module")
def gpus(short_folder, plugin):
    """Four nodes with eight GPUs and 128 CPUs each, and the names that the examples ask for."""
    made = Minicluster(short_folder / "gpu", f"--plugin={plugin}", "--nodes=4", "--gpus=8", "--cpus=128").start()
    for partition in ("booster", "standard-g"):
        made.run("scontrol", "create", f"partitionname={partition}", "nodes=ALL")
    made.run("scontrol", "update", "nodename=jwb[0001-0004]", "availablefeatures=gpu", "activefeatures=gpu")
    yield made
    made.stop()


@pytest.fixture
def submit(gpus, tmp_path):
    """Submits a template with a program in place of the trainer and of Python that records its environment and arguments."""
    recorded = gpus.new_folder()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("rollcall-train", "python"):
        record = f"exec /usr/bin/python3 -S -c {shlex.quote(RECORD_ENVIRONMENT)} {recorded}"
        (programs / name).write_text(f'#!/bin/sh\nexport PROGRAM={name} ARGUMENTS="$*"\n{record}\n')
        (programs / name).chmod(0o755)
    folder = gpus.new_folder()
    for path in TEMPLATES.iterdir():
        shutil.copy(path, folder)

    def submitted(*command):
        result = gpus.run("sh", "-c", f"cd {folder} && exec sbatch --parsable \"$@\"", "sh", f"--output={tmp_path}/%j.out", *command,
                          env={"PATH": f"{programs}:{os.environ['PATH']}"})
        job = result.stdout.strip()
        gpus.wait_for_job(job)
        found = [json.loads(file.read_text()) for file in recorded.glob("*.json")]
        output = poll(lambda: (tmp_path / f"{job}.out").exists() and (tmp_path / f"{job}.out").read_text() or found, "output")
        return sorted(found, key=lambda e: int(e["SLURM_PROCID"])), output

    return submitted


def check(found, output, program, arguments, nodes, gpus, cpus):
    """A rank for each GPU, and each sees all GPUs of its node."""
    assert len(found) == nodes * gpus, output
    for rank, e in enumerate(found):
        assert (e["PROGRAM"], e["ARGUMENTS"]) == (program, arguments)
        assert (e["RANK"], e["WORLD_SIZE"], e["LOCAL_RANK"]) == (str(rank), str(nodes * gpus), str(rank % gpus))
        assert e["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, range(gpus)))
        assert (e["SLURM_GPUS_ON_NODE"], e["SLURM_CPUS_PER_TASK"]) == (str(gpus), str(cpus))


def test_run_sbatch_takes_gpus_from_the_command_line(submit):
    found, output = submit("--nodes=2", "--gres=gpu:4", "--ntasks-per-node=4", "--cpus-per-task=12", "run.sbatch", "--epochs=1")
    check(found, output, "rollcall-train", "--epochs=1", nodes=2, gpus=4, cpus=12)


@pytest.mark.parametrize("site, cpus", [("juwelsbooster", 12), ("perlmutter", 32)])
def test_site_examples_start_one_rank_per_gpu(submit, site, cpus):
    found, output = submit(f"{site}.sbatch", "--data=x", "--epochs=1")
    check(found, output, "rollcall-train", "--data=x --epochs=1", nodes=2, gpus=4, cpus=cpus)


def test_the_lumi_example_binds_python_near_each_gpu(submit):
    found, output = submit("lumi.sbatch", "train.py", "--epochs=1")
    check(found, output, "python", "train.py --epochs=1", nodes=2, gpus=8, cpus=7)
    masks = {e["SLURM_CPU_BIND_LIST"] for e in found}
    assert masks and all(mask.lower().replace("0x", "").startswith("fe000000000000,fe00000000000000,fe0000,") for mask in masks), masks


@pytest.mark.parametrize("template", sorted(path.name for path in TEMPLATES.glob("*.sbatch")))
def test_every_template_is_accepted_by_sbatch(gpus, template):
    """sbatch looks at all of its lines, and finds nodes for them."""
    result = gpus.run("sbatch", "--test-only", str(TEMPLATES / template), check=False)
    assert result.returncode == 0, result.stderr
