"""--model=FILE.pt: a user's own model, as a TorchScript file, is trained, saved and resumed like a network of the program."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import agents
import elastic_runs
import pytest
import reference.training
import small_trainings
import torch
import torchvision
import trainer_ranks
import whole_training
from own_models import Small, save, small
from small_trainings import SAME_BITS
from torch import nn

pytestmark = [pytest.mark.python, pytest.mark.filterwarnings("ignore:.torch.jit")]
pytest.importorskip("h5py")

SMALL = {**small_trainings.SMALL, **SAME_BITS, "optimizer": "sgd", "lr": 0.05, "batch-size": 4}
del SMALL["zero-init-residual"]
SUPPORT = pathlib.Path(reference.training.__file__).parents[1]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return str(small_trainings.make_tree(tmp_path_factory.mktemp("pictures"), (32, 32)))


def run(folder, script, data, *more, **how):
    return trainer_ranks.run(folder, *small_trainings.options({**whole_training.QUIET, **SMALL, "model": script, "data": data}), *more, **how)


@pytest.mark.parametrize("ranks, more", [
    (2, {"epochs": 1}),
    (2, {"grad-accumulation": 2, "lr-schedule": "cosine", "label-smoothing": 0.1, "mixup": 0.3}),
    (2, {"parallel": "fsdp", "lr-factors": "stem=0.1,scale=0.3,head=2"}),
    (1, {"precision": "bf16", "epochs": 1}),
    pytest.param(2, {"channels-last": False, "broadcast-buffers": False}, marks=pytest.mark.long),
    pytest.param(2, {"gradient-compression": "bf16", "backend": "ucx"}, marks=pytest.mark.long),
], ids=["ddp", "accumulation", "fsdp", "bf16", "contiguous", "compression"])
def test_a_script_trains_as_in_python(tmp_path, pictures, ranks, more):
    """Losses, weights, statistics and moments, with the drop-out of each rank."""
    settings = {**SMALL, "model": small(tmp_path / "net.pt"), "data": pictures, **more}
    backend = settings.pop("backend", None)
    ours = whole_training.train_ours(tmp_path / "run", settings, ranks, [f"--backend={backend}"] if backend else [])
    whole_training.compare(ours, reference.training.train(settings, ranks), whole_training.SAME)
    assert list(ours.state) == list(Small().state_dict())
    assert "gradient layout contract" not in ours.printed


LARGE = {
    "convnext_tiny": lambda: torchvision.models.convnext_tiny(num_classes=8),
    "vit_b_16": lambda: torchvision.models.vit_b_16(num_classes=8, image_size=32),
    "efficientnet_b0": lambda: torchvision.models.efficientnet_b0(num_classes=8),
    "timm mobilenetv3_small_050": lambda: pytest.importorskip("timm").create_model("mobilenetv3_small_050", num_classes=8),
    "timm test_vit": lambda: pytest.importorskip("timm").create_model("test_vit", num_classes=8, img_size=32),
}


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE)
def test_published_models_train_as_in_python(tmp_path, pictures, name):
    torch.manual_seed(1)
    script = save(LARGE[name](), tmp_path / "net.pt")
    steps = 2 if name == "vit_b_16" else 4  # its 86 million parameters cost seconds a step
    whole_training.both(tmp_path / "run", {**SMALL, "model": script, "data": pictures, "lr": 0.002, "max-steps": steps, "log-steps": 1}, ranks=2)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["gloo", "ucx"])
def test_the_losses_are_those_of_pythons_ddp(tmp_path, pictures, backend):
    """Twenty steps, beside DistributedDataParallel in two processes with the executor that Python chooses."""
    script = save(without_drop_out(), tmp_path / "net.pt")
    settings = {**SMALL, "model": script, "data": pictures, "max-steps": 20, "epochs": 3, "log-steps": 1, "valid-epochs": 0}
    ours = whole_training.train_ours(tmp_path / "run", settings, 2, [f"--backend={backend}"])
    told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(agents.free_port()), "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONPATH": str(SUPPORT), "PYTHONWARNINGS": "ignore"}
    theirs = [subprocess.Popen([sys.executable, SUPPORT / "ddp_of_script.py", json.dumps(settings)], text=True, stdout=subprocess.PIPE,
                               env={**os.environ, **told, "RANK": str(rank)}) for rank in range(2)]
    expected = [float(line) for line in theirs[0].communicate(timeout=240)[0].split()]
    assert [process.wait(timeout=60) for process in theirs] == [0, 0]
    losses = [record["loss"] for record in ours.records if record["event"] == "step"]
    assert losses == pytest.approx(expected, rel=1e-5) and len(losses) == 20
    assert max(losses) - min(losses) > 0.1


@pytest.mark.parametrize("name", ["small", pytest.param("efficientnet_b0", marks=pytest.mark.long)])
def test_a_resumed_training_has_the_bits_of_an_uninterrupted_one(tmp_path, pictures, name):
    """EfficientNet's are others after the first run of the profiling executor, which fuses SiLU."""
    script = save(LARGE[name](), tmp_path / "net.pt") if name in LARGE else small(tmp_path / "net.pt")
    more = ("--max-steps=12", "--valid-epochs=0", "--checkpoint-steps=5", "--checkpoint-mode=sync", "--keep-last=9")
    run(tmp_path / "whole", script, pictures, *more)
    part = tmp_path / "part"
    part.mkdir()
    shutil.copy(tmp_path / "whole" / "step-00000005.h5", part)
    moved = tmp_path / "elsewhere" / "other name.pt"
    moved.parent.mkdir()
    shutil.move(script, moved)
    assert "resumed from" in run(part, str(moved), pictures, *more)
    whole, resumed = (trainer_ranks.datasets(folder / "step-00000012.h5") for folder in (tmp_path / "whole", part))
    assert {name for name in whole if whole[name] != resumed.get(name)} == set() and len(whole) > 30


def test_a_changed_script_is_named_at_resume(tmp_path, pictures):
    script = small(tmp_path / "net.pt")
    more = ("--valid-epochs=0", "--checkpoint-steps=2")
    run(tmp_path / "run", script, pictures, "--max-steps=2", *more, ranks=1)
    small(tmp_path / "net.pt", seed=4)
    text = run(tmp_path / "run", script, pictures, "--max-steps=4", *more, ranks=1, code=76)
    assert f"is of another training: --model was {script}#" in text and f"and is {script}#" in text


def test_ranks_with_different_scripts_are_refused(tmp_path, pictures):
    mine, other = small(tmp_path / "net.pt"), small(tmp_path / "other" / "net.pt", seed=4)
    options = small_trainings.options({**whole_training.QUIET, **SMALL, "model": mine, "data": pictures, "max-steps": 1})
    prefix = ["sh", "-c", f'exec "$@" --model={other}', "sh"]
    text = trainer_ranks.finish(trainer_ranks.start(tmp_path / "run", *options, prefixes={1: prefix}), 76)
    assert f"rollcall: --model: {other}#" in text and f"but rank 0 has {mine}#" in text
    shutil.copy(mine, other)
    trainer_ranks.finish(trainer_ranks.start(tmp_path / "same", *options, prefixes={1: prefix}))


@pytest.mark.long
def test_any_number_of_ranks_gives_the_same_bits_with_elastic_exact(tmp_path, pictures):
    script = small(tmp_path / "net.pt")
    found = []
    for ranks in (4, 3, 1):
        run(tmp_path / str(ranks), script, pictures, "--elastic-exact=4", "--max-steps=6", "--grad-accumulation=2", ranks=ranks)
        path = trainer_ranks.checkpoints(tmp_path / str(ranks))[-1]
        found.append({name: value for name, value in trainer_ranks.datasets(path).items() if not name.startswith("rng/")})
    assert found[0] == found[1] == found[2] and len(found[0]) > 30


def without_drop_out():
    return Small().apply(lambda module: setattr(module, "p", 0.0) if isinstance(module, nn.Dropout) else None)


@pytest.mark.long
def test_a_script_on_a_device_has_the_bits_of_cpus(tmp_path, pictures):
    """The stand-in device, step by step and as a graph."""
    script, found = save(without_drop_out(), tmp_path / "net.pt"), []
    for name, more in {"cpu": ("--device=cpu",), "device": ("--device=stand_in",), "graph": ("--device=stand_in", "--cuda-graph=on")}.items():
        run(tmp_path / name, script, pictures, "--image-dtype=float32", "--max-steps=20", "--epochs=3", "--valid-epochs=0", *more)
        found.append(trainer_ranks.datasets(trainer_ranks.checkpoints(tmp_path / name)[-1]))
    assert found[0] == found[1] == found[2] and len(found[0]) > 30


@pytest.mark.long
def test_survivors_continue_with_the_same_bits(tmp_path):
    """A rank is killed; its successor draws the same drop-out."""
    options = (*elastic_runs.SMALL, f"--model={small(tmp_path / 'net.pt', classes=10)}", "--max-steps=30", "--epochs=100")
    found = []
    for name in ("undisturbed", "killed"):
        training = elastic_runs.Training(tmp_path / name, *options)
        try:
            training.start()
            if name == "killed":
                training.wait_for_step(8)
                elastic_runs.kill(training.workers()[1])
                training.wait(lambda training=training: training.records("regrouped"))
            training.finish()
        finally:
            training.close()
        found.append(trainer_ranks.datasets(trainer_ranks.checkpoints(tmp_path / name)[-1]))
    assert found[0] == found[1] and len(found[0]) > 30


def test_exported_weights_fit_the_python_model_and_start_another_training(tmp_path, pictures):
    script = small(tmp_path / "net.pt")
    run(tmp_path / "run", script, pictures, "--max-steps=2", ranks=1)
    [path] = trainer_ranks.checkpoints(tmp_path / "run")
    weights = tmp_path / "weights.pth"
    subprocess.run([trainer_ranks.BUILD / "trainer" / "rollcall-checkpoint", "export", path, weights], check=True, capture_output=True)
    trained = torch.load(weights, weights_only=True)
    Small().load_state_dict(trained)
    assert list(trained) == list(Small().state_dict())
    assert f"the model starts from {weights}" in run(tmp_path / "next", script, pictures, f"--init-from={weights}", "--max-steps=1",
                                                     "--lr=1e-12", ranks=1)
    [path] = trainer_ranks.checkpoints(tmp_path / "next")
    again = trainer_ranks.model_in(path)
    assert all(torch.allclose(torch.from_numpy(again[name]), value) for name, value in trained.items() if value.ndim > 1)


class Pair(Small):
    def forward(self, images):
        features = self.stem(images)
        return self.head(features.mean((2, 3))), features


class Features(Small):
    def forward(self, images):
        return self.stem(images)


class TwoInputs(Small):
    def forward(self, images, boxes):
        return self.head(self.stem(images).mean((2, 3)) + boxes)


class Sized(Small):
    def forward(self, images):
        assert images.shape[2] == 224, "Wrong image height"
        return self.head(self.stem(images).mean((2, 3)))


class Counting(Small):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, images):
        self.calls = self.calls + 1
        return self.head(self.stem(images).mean((2, 3)))


class Tied(Small):
    def __init__(self):
        super().__init__()
        self.body[1].weight = self.body[0].weight


def traced(model):
    return torch.jit.trace(model.eval(), torch.zeros(2, 3, 32, 32))


REFUSED = {
    "classes": (lambda path: save(Small(10), path), "has 10 outputs, not one for each of 8 classes; try saving it with 8 outputs, or --num-"),
    "outputs": (lambda path: save(Pair(), path), "returns (Tensor, Tensor); try returning one tensor of logits from forward()"),
    "shape": (lambda path: save(Features(), path), "returns float [2, 16, 16, 16] for two images; try returning logits [2, 8]"),
    "inputs": (lambda path: save(TwoInputs(), path), "cannot compute images [2, 3, 32, 32]: forward() is missing value for argument 'boxes'"),
    "size": (lambda path: save(Sized(), path), "Wrong image height; try setting --image-size"),
    "traced": (lambda path: save(Small(), path, traced), "as after torch.jit.trace; try saving torch.jit.script(model)"),
    "frozen": (lambda path: save(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), path),
               "has no parameters; try saving it without torch.jit.freeze"),
    "half": (lambda path: save(Small().half(), path), "parameter scale is not float32; try saving model.float()"),
    "tied": (lambda path: save(Tied(), path), "parameters body.0.weight and body.1.weight share their memory; try saving"),
    "replaced": (lambda path: save(Counting(), path), "forward() replaces calls, which checkpoints would miss; try changing it in place"),
    "state dict": (lambda path: torch.save(Small().state_dict(), path), "is not a TorchScript file: PytorchStreamReader failed locating"),
    "text": (lambda path: path.write_text("hello"), "; try saving torch.jit.script(model), or --init-from if the file has weights alone"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_trained_is_refused_by_name(tmp_path, pictures, name):
    make, reason = REFUSED[name]
    make(tmp_path / "net.pt")
    text = run(tmp_path / "run", tmp_path / "net.pt", pictures, ranks=1, code=65)
    [line] = [line for line in text.splitlines() if line.startswith("rollcall: ")]
    assert line.startswith(f"rollcall: --model: {tmp_path}/net.pt: ") and reason in line and "; try " in line


@pytest.mark.parametrize("option, reason", [
    ("--sync-bn=on", "cannot be combined with --model="), ("--zero-init-residual=on", "try --model=resnet50, or leaving it out"),
    ("--model=none.pt", "rollcall: --model: none.pt: No such file or directory; try naming a TorchScript file"),
    ("--model=resnet5O", "is not one of resnet20, "),
    ("--param-dtype=bf16 --parallel=fsdp", "rollcall: --param-dtype: bf16: cannot be combined with")])
def test_settings_that_do_not_fit_are_refused(tmp_path, pictures, option, reason):
    code = 66 if "none.pt" in option else 64
    text = run(tmp_path / "run", small(tmp_path / "net.pt"), pictures, *option.split(), ranks=1, code=code)
    assert reason in text
