"""Writes tests/data/VERSION: small files of each kind that a later version meets, by the programs as they are built. It is run once a
version, before its release:  $(scripts/setup --print-python) tests/upgrade/write_files.py"""
import json
import lzma
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

import h5py
import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build" / "release"))
ROLLCALL, TRAIN, PACK = BUILD / "runtime" / "rollcall", BUILD / "trainer" / "rollcall-train", BUILD / "trainer" / "rollcall-pack"
sys.path.insert(0, str(ROOT / "tests" / "support"))
from small_trainings import write_pictures  # noqa: E402


def run(*command, folder):
    own = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "SCRATCH": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.run(list(map(str, command)), cwd=folder, env=own, check=True, stdout=subprocess.PIPE, text=True).stdout


def settings(program, folder):
    """{name: value} of the first table that --print-config shows: the program's own."""
    shown, _ = json.JSONDecoder().raw_decode(run(program, "--print-config", "--json", folder=folder))
    return {name.replace(".", "-"): entry["value"] for name, entry in shown.items() if "value" in entry}


def toml(values):
    """Numbers and on/off as TOML has them, all else as text."""
    typed = {name: value if re.fullmatch(r"true|false|-?\d+(\.\d+)?", value) else json.dumps(value) for name, value in values.items()}
    return "".join(f"{name} = {value}\n" for name, value in typed.items())


def write_settings(folder, kept):
    """A user's file with each setting of this version."""
    kept.joinpath("config.toml").write_text(
        toml(settings(ROLLCALL, folder)) + "\n[trainer]\n" + toml(settings(TRAIN, folder)))


def write_installation(folder, kept):
    """What `rollcall install --site` leaves in /etc of a node's image, but for the plugin."""
    image = folder / "image"
    (image / "etc" / "slurm").mkdir(parents=True)
    (image / "etc" / "slurm" / "slurm.conf").write_text("ClusterName=image\n")
    (image / "opt").mkdir()
    (image / "opt" / "spank_rollcall.so").write_bytes((BUILD / "spank_plugin" / "spank_rollcall.so").read_bytes())
    run(ROLLCALL, "install", "--site", f"--root={image}", "--plugin=/opt/spank_rollcall.so",
        f"--profile={ROOT}/site_config/generic.toml", folder=folder)
    for name in ("slurm/plugstack.conf", "rollcall/site.toml"):
        (kept / "etc" / name).parent.mkdir(parents=True)
        (kept / "etc" / name).write_bytes((image / "etc" / name).read_bytes())


def regular_weights(checkpoint, path):
    """The checkpoint's tensors with a pattern in place of random numbers, so that files with them compress well. The last layer is zero:
    the first step has a gradient there alone, and its momentum and weights keep the pattern elsewhere."""
    weights = {}
    with h5py.File(checkpoint) as file:
        for name in (key.decode() for key in file["model_keys"]):
            tensor = torch.tensor(file["model/" + name.replace(".", "/")][()])
            if tensor.dim() == 4:
                tensor = ((torch.arange(tensor.numel()) % 13 - 6) / 64).reshape(tensor.shape)
            else:
                tensor.fill_(name != "fc.weight" and name.endswith((".weight", "running_var")))
            weights[name] = tensor
    torch.save(weights, path)


def write_training(folder, kept):
    """Packed images, and the checkpoint and the records of a training with them that has done one step."""
    random = numpy.random.default_rng(7)
    for part, count in (("train", 4), ("val", 2)):
        write_pictures(folder / "pictures" / part, count, random, (32, 32), classes=4)
    run(PACK, "--num-workers=1", "--progress=none", "pictures", "data", folder=folder)
    train = [TRAIN, "--data=data", "--model=resnet20", "--image-size=32", "--batch-size=4", "--optimizer=sgd", "--max-steps=1", "--report=off"]
    run(*train, "--run-name=first", folder=folder)
    regular_weights(folder / "rollcall" / "first" / "checkpoints" / "step-00000001.h5", folder / "regular.pth")
    run(*train, "--run-name=kept", "--init-from=regular.pth", folder=folder)
    made = folder / "rollcall" / "kept"
    records = (made / "metrics.jsonl").read_text().replace(f'"{socket.gethostname()}"', '"node1"').replace(str(folder), "/scratch")
    kept.joinpath("metrics.jsonl").write_text(records)
    for path in (folder / "data" / "train.h5", folder / "data" / "val.h5", made / "checkpoints" / "step-00000001.h5"):
        kept.joinpath(f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        version = run(ROLLCALL, "--version", folder=folder).split()[1]
        kept = ROOT / "tests" / "data" / version
        kept.mkdir(parents=True)  # an error where it is there: files of a version that was released do not change
        write_settings(folder, kept)
        write_installation(folder, kept)
        write_training(folder, kept)


main()
