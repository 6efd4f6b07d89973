"""--sweep: an element of a job array takes the options of its line, and rollcall-report --table compares the runs."""
import json
import subprocess

import pytest
import trainer_ranks

pytestmark = pytest.mark.python
REPORT = trainer_ranks.BUILD / "trainer" / "rollcall-report"
LINES = "# learning rates\n--lr=0.5 --seed=1\n\n  --lr=0.001 --batch-size=8\n"


def train(folder, *options, element=None, code=0):
    variables = {} if element is None else {"SLURM_ARRAY_TASK_ID": str(element), "SLURM_ARRAY_JOB_ID": "7"}
    done = subprocess.run([trainer_ranks.PROGRAM, f"--sweep={folder}/sweep.txt", *options], capture_output=True, text=True, check=False,
                          env={**trainer_ranks.environment(folder, 0, 1), **variables})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def test_an_element_takes_the_options_of_its_line(tmp_path):
    (tmp_path / "sweep.txt").write_text(LINES)
    for element, expected in ((1, {"lr": "0.5", "seed": "1", "batch-size": "4"}), (2, {"lr": "0.001", "seed": "9", "batch-size": "8"})):
        text = train(tmp_path, "--print-config", "--json", "--seed=9", "--lr=3", "--batch-size=4", element=element)
        config, _ = json.JSONDecoder().raw_decode(text)
        assert {name: config[name]["value"] for name in expected} == expected
        assert config["lr"]["origin"] == f"--sweep={tmp_path}/sweep.txt:{element}"


@pytest.mark.parametrize("lines, element, said", [
    (LINES, None, "is for the elements of a job array, and this is none; try sbatch --array=1-2"),
    (LINES, 3, "has 2 lines of options, but this is element 3 of a job array; try sbatch --array=1-2"),
    ("# nothing\n", 1, "has 0 lines of options, but this is element 1 of a job array; try writing a line of options for each element"),
    ("--lr 0.1\n", 1, "--sweep: --lr: in line 1 of "),
    ("--learning-rate=0.1\n", 1, "--sweep: --learning-rate=0.1: in line 1 of "),
    ("--lr=fast\n", 1, "fast"),
    (None, 1, "No such file or directory; try naming a file that every node can read")])
def test_a_bad_sweep_is_refused(tmp_path, lines, element, said):
    if lines is not None:
        (tmp_path / "sweep.txt").write_text(lines)
    assert said in train(tmp_path, "--data=fake", element=element, code=66 if lines is None else 64)


def test_the_report_has_a_line_for_each_run_the_best_first(tmp_path):
    (tmp_path / "sweep.txt").write_text("--lr=0.001\n--lr=0.0001\n--lr=0.01\n")
    for element in (1, 2, 3):
        train(tmp_path, *trainer_ranks.SMALL, "--fake-size=100", "--num-classes=10", "--epochs=1", "--report=off", element=element)
    runs = sorted((tmp_path / "rollcall").glob("run-*"))
    assert [run.name for run in runs] == ["run-1", "run-2", "run-3"]
    table = subprocess.run([REPORT, "--table", *runs], capture_output=True, text=True, check=True).stdout.splitlines()
    assert table[0].split()[:3] == ["run", "lr", "step"] and table[0].endswith("best top-1  loss")
    rows = [line.split() for line in table[1:]]
    assert {row[0]: row[1] for row in rows} == {"run-1": "0.001", "run-2": "0.0001", "run-3": "0.01"}
    best = [float(row[3]) for row in rows]
    assert best == sorted(best, reverse=True)
