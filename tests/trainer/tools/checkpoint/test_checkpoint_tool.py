"""Every command of rollcall-checkpoint with good and bad input: what it prints, and its exit code."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

pytestmark = pytest.mark.python
BUILD = pathlib.Path(os.environ["ROLLCALL_BUILD_DIR"])
PROGRAM = BUILD / "trainer" / "rollcall-checkpoint"
COMMANDS = ["ls", "show", "verify", "diff", "export", "import", "merge", "prune"]


def run(*arguments, code=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr + done.stdout
    if code > 1:
        lines = done.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("rollcall: ") and "; try " in lines[0], done.stderr
    return done.stdout if code <= 1 else done.stderr


def run_json(*arguments, code=0):
    found = json.loads(run(*arguments, "--json", code=code))
    assert (found["schema"], found["command"]) == ("rollcall-checkpoint/1", arguments[0])
    return found


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoints") / "step-00000010.h5"
    subprocess.run([BUILD / "tests" / "write_checkpoint_sample", path], check=True)
    return path


@pytest.fixture()
def damaged(sample, tmp_path):
    path = tmp_path / "step-00000020.h5"
    data = bytearray(sample.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data[: len(data) * 3 // 4]))
    return path


# --- help and wrong command lines

@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_shows_usage_and_examples(command):
    for text in (run(command, "--help"), run("help", command)):
        assert f"usage: rollcall-checkpoint {command}" in text and "Example" in text
        assert all(len(line) <= 125 for line in text.splitlines())


def test_the_programs_help_names_every_command_and_exit_code():
    text = run("--help")
    assert all(f"\n  {command} " in text for command in COMMANDS)
    assert "Exit codes" in text
    assert run("--version").startswith("rollcall-checkpoint ")


@pytest.mark.parametrize("arguments, says", [
    ([], "no command"), (["shwo"], "try rollcall-checkpoint show"), (["help", "nothing"], "unknown command"),
    (["show"], "an argument is missing"), (["diff", "a"], "an argument is missing"), (["diff", "a", "b", "c"], "unexpected argument"),
    (["merge", "out", "one"], "an argument is missing"), (["show", "--jsn", "x"], "--json"),
    (["export", "--to=onnx", "a", "b"], "torch"), (["export", "a", "b.onnx"], "--to=torch"),
    (["prune"], "an argument is missing"), (["prune", "a", "b"], "unexpected argument"), (["prune", "--keep-last=0", "a"], "--keep-last"),
    (["prune", "--keep-lsat=2", "a"], "--keep-last"), (["prune", "--verify=no", "a"], "metadata"),
])
def test_invalid_command_lines_are_rejected_with_advice(arguments, says):
    assert says in run(*arguments, code=64)


@pytest.mark.parametrize("arguments", [["show", "{}"], ["verify", "{}"], ["diff", "{}", "{}"], ["export", "{}", "x.pt"],
                                       ["import", "{}", "x.h5"], ["merge", "x.h5", "{}", "{}"]])
def test_missing_damaged_and_foreign_files_are_rejected(arguments, damaged, tmp_path):
    def filled(path):
        return [argument.format(path) for argument in arguments]

    assert "No such file" in run(*filled(tmp_path / "absent.h5"), code=66)
    text = tmp_path / "text.h5"
    text.write_text("this is a text, and no checkpoint\n" * 10)
    run(*filled(text), code=65)
    run(*filled(damaged), code=65)
    (tmp_path / "empty").mkdir()
    run(*filled(tmp_path / "empty"), code=66)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "step-00000020.h5", "text.h5"]


# --- show

def test_show_lists_values_and_tensors(sample):
    text = run("show", sample)
    assert "progress/epoch" in text and "0.875" in text and "rollcall-train --lr=0.1" in text and "/optimizer" in text
    assert [line.split()[0] for line in text.splitlines()[:3]] == ["file", "progress", "command"], text
    assert re.search("^progress +3 epochs done$", text, re.M) and max(map(len, text.splitlines())) < 150, text
    assert "layer.0.weight" in run("show", "--tensors", sample)
    found = run_json("show", "--tensors", sample)
    assert found["values"]["/sampler/seed"] == 0xFFFFFFFFFFFFFFF0
    weight = found["tensors"][0]
    assert (weight["name"], weight["dtype"], weight["shape"], weight["bytes"]) == ("layer.0.weight", "float32", [2, 3, 5, 7], 840)


def test_show_prints_statistics_of_named_tensors(sample):
    found = run_json("show", sample, "layer.0.bias", "/optimizer/state/layer.0.bias/momentum_buffer", "half", "scale", "empty")
    assert [t["statistics"]["maximum"] for t in found["tensors"]] == [0.25, 0.25, 1, 1, 0]
    assert found["tensors"][3]["statistics"] == {"elements": 2, "nan": 0, "infinite": 0, "zeros": 0, "minimum": -2.0,
                                                 "maximum": 1.0, "mean": -0.5, "deviation": 1.5}
    assert "layer.0.bias" in run("show", sample, "layer.0.bias")
    assert "try naming layer.0.weight" in run("show", sample, "layer.0.wieght", code=64)


def test_a_folder_stands_for_its_newest_intact_checkpoint(sample, damaged, tmp_path):
    shutil.copy(sample, tmp_path)
    assert run_json("show", tmp_path)["path"].endswith("step-00000010.h5")


# --- diff

def changed_copy(sample, path):
    """A file of the same tensors, one of them changed, made by other means than the program's own."""
    h5py = pytest.importorskip("h5py")
    safetensors = pytest.importorskip("safetensors.numpy")
    with h5py.File(sample) as file:
        tensors = {"layer.0.weight": file["model/layer/0/weight"][()], "layer.0.bias": file["model/layer/0/bias"][()]}
    tensors["layer.0.bias"][1] += 0.5
    tensors["layer.0.new"] = tensors.pop("layer.0.weight").reshape(-1)
    safetensors.save_file(tensors, path.with_suffix(".safetensors"))
    run("import", path.with_suffix(".safetensors"), path)


def test_diff_reports_differing_tensors_and_by_how_much(sample, tmp_path):
    assert run_json("diff", sample, sample)["equal"] is True
    assert "equal: 7 tensors; different: 0 tensors, 0 values" in run("diff", sample, sample)
    changed_copy(sample, tmp_path / "b.h5")
    text = run("diff", sample, tmp_path / "b.h5", code=1)
    assert "only in A" in text and "only in B" in text and "value differs" in text
    found = run_json("diff", sample, tmp_path / "b.h5", code=1)
    bias = next(t for t in found["tensors"] if t["name"] == "layer.0.bias")
    assert bias["difference"] == {"elements": 2, "differing": 1, "max_absolute": 0.5, "max_relative": 0.5 / 0.75,
                                  "mean_absolute": 0.25}
    only_model = run_json("diff", "--model", sample, tmp_path / "b.h5", code=1)
    assert only_model["values"] == [] and not any(t["name"].startswith("/optimizer") for t in only_model["tensors"])


# --- export, import, merge

def test_export_replaces_a_file_only_with_overwrite(sample, tmp_path):
    out = tmp_path / "out.safetensors"
    assert run_json("export", sample, out)["tensors"] == 6
    assert "--overwrite" in run("export", sample, out, code=73)
    run("export", "--overwrite", sample, out)
    run("export", sample, tmp_path / "absent" / "out.pt", code=73)
    assert [p.name for p in tmp_path.iterdir()] == ["out.safetensors"]


def test_import_replaces_a_file_only_with_overwrite(sample, tmp_path):
    run("export", sample, tmp_path / "model.pt")
    found = run_json("import", tmp_path / "model.pt", tmp_path / "in.h5")
    assert (found["tensors"], found["model"]) == (6, None)
    run("import", tmp_path / "model.pt", tmp_path / "in.h5", code=73)
    run("import", "--overwrite", tmp_path / "model.pt", tmp_path / "in.h5")
    assert run_json("diff", "--model", sample, tmp_path / "in.h5")["equal"] is True
    assert "needs no import" in run("import", sample, tmp_path / "x.h5", code=65)


def test_merge_averages_checkpoints(sample, tmp_path):
    numpy = pytest.importorskip("numpy")
    safetensors = pytest.importorskip("safetensors.numpy")
    for name, factor in (("a", 1.0), ("b", 4.0)):
        state = {"w": numpy.arange(5, dtype=numpy.float32) * factor, "n": numpy.array(int(factor)),
                 "h": numpy.array([factor], numpy.float16)}
        safetensors.save_file(state, tmp_path / f"{name}.safetensors")
        run("import", tmp_path / f"{name}.safetensors", tmp_path / f"{name}.h5")
    assert run_json("merge", tmp_path / "m.h5", tmp_path / "a.h5", tmp_path / "b.h5")["tensors"] == 3
    run("export", tmp_path / "m.h5", tmp_path / "m.safetensors")
    merged = safetensors.load_file(tmp_path / "m.safetensors")
    assert merged["w"].tolist() == [0, 2.5, 5, 7.5, 10] and merged["n"] == 4 and merged["h"].tolist() == [2.5]
    assert "differs" in run("merge", tmp_path / "x.h5", tmp_path / "a.h5", sample, code=76)
    run("merge", tmp_path / "m.h5", tmp_path / "a.h5", tmp_path / "b.h5", code=73)


# --- ls, verify

def folder_of(sample, path, steps=(10, 20, 30)):
    path.mkdir()
    for step in steps:
        shutil.copy(sample, path / f"step-{step:08}.h5")
    return path


def test_ls_shows_the_state_of_every_file(sample, tmp_path):
    folder = folder_of(sample, tmp_path / "run")
    (folder / "step-00000020.h5").write_bytes(sample.read_bytes()[:1000])
    shutil.copy(sample, folder / "step-00000005.h5.damaged")
    shutil.copy(sample, folder / "step-00000040.h5.superseded")
    (folder / "best.h5").symlink_to("step-00000010.h5")
    (folder / "metrics.jsonl").write_text("{}\n")
    found = {pathlib.Path(f["path"]).name: f for f in run_json("ls", folder)["files"]}
    assert list(found) == ["step-00000040.h5.superseded", "step-00000030.h5", "step-00000020.h5", "step-00000010.h5",
                           "step-00000005.h5.damaged"]
    assert [f["state"] for f in found.values()] == ["superseded", "committed", "damaged", "committed", "set aside as damaged"]
    assert found["step-00000010.h5"]["best"] and not found["step-00000030.h5"]["best"]
    assert found["step-00000030.h5"]["epoch"] == 3 and found["step-00000020.h5"]["reason"]
    text = run("ls", folder)
    assert text.splitlines()[0].split()[:4] == ["FILE", "STATE", "STEP", "EPOCH"] and "best" in text
    assert "no checkpoints" in run("ls", tmp_path)
    assert "No such file" in run("ls", tmp_path / "absent", code=66)
    assert len(run_json("ls", sample)["files"]) == 1


def test_verify_reads_all_data_and_names_damaged_tensors(sample, tmp_path):
    folder = folder_of(sample, tmp_path / "run")
    found = run_json("verify", folder)
    assert [f["sound"] for f in found["files"]] == [True] * 3
    assert run("verify", "--num-workers=3", sample).count(": intact, ") == 1
    weight = next(t for t in run_json("show", "--tensors", sample)["tensors"] if t["name"] == "layer.0.weight")
    victim = folder / "step-00000020.h5"
    data = bytearray(victim.read_bytes())
    at = data.find(b"".join(struct.pack("<f", i / 4) for i in range(210)))
    assert at > 0 and weight["bytes"] == 840
    data[at + 5] ^= 1
    victim.write_bytes(bytes(data))
    done = subprocess.run([PROGRAM, "verify", folder, "--json"], capture_output=True, text=True)
    assert done.returncode == 65 and "1 of 3 files" in done.stderr
    found = json.loads(done.stdout)["files"]
    assert [f["sound"] for f in found] == [True, False, True] and found[1]["damaged"] == ["layer.0.weight"]
    assert "layer.0.weight" in subprocess.run([PROGRAM, "verify", victim], capture_output=True, text=True).stdout


# --- prune: tests/trainer/tools/checkpoint/prune_test.cpp has what it may remove

def test_prune_reports_removed_and_kept_files(sample, tmp_path):
    folder = folder_of(sample, tmp_path / "run", range(10, 60, 10))
    lines = run("prune", "--dry-run", folder).splitlines()
    assert [line.split()[0] for line in lines[1:6]] == [f"step-{s:08}.h5" for s in range(10, 60, 10)]
    assert lines[1].endswith("would be removed  superfluous") and lines[5].endswith("one of the newest 3, verified")
    assert lines[6].startswith("2 would be removed, ") and len(list(folder.iterdir())) == 5
    found = run_json("prune", folder)
    assert [file["removed"] for file in found["files"]] == [True, True, False, False, False]
    assert found["freed_bytes"] == 2 * sample.stat().st_size and not found["dry_run"]
    assert run("prune", folder).splitlines()[-1] == "0 removed, 0 B freed; 3 kept"
    assert "is a file" in run("prune", sample, code=66)
    (tmp_path / "empty").mkdir()
    assert "holds no checkpoint" in run("prune", tmp_path / "empty", code=66)
    assert "No such file" in run("prune", tmp_path / "absent", code=66)


def test_verify_skips_files_removed_in_the_meantime(sample, tmp_path):
    """A full pipe blocks the tool at its first line, after it listed the folder and while it verifies the newest file."""
    for step in (10, 20):
        shutil.copy(sample, tmp_path / f"step-000000{step}.h5")
    reader, writer = os.pipe()
    os.write(writer, bytes(fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)))
    with subprocess.Popen([PROGRAM, "verify", "--progress=bar", tmp_path], stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        assert process.stderr.read(1)
        (tmp_path / "step-00000010.h5").unlink()
        with os.fdopen(reader, "rb") as told:
            text = told.read().decode()
        errors = process.stderr.read().decode()
    assert process.returncode == 0, errors
    assert "step-00000020.h5: intact" in text and "step-00000010.h5: was removed in the meantime" in text, text
