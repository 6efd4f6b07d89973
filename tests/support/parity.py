"""Runs tests/support/parity_tool.cpp on data of Python's; shared by the parity tests."""
import multiprocessing
import os
import pathlib
import subprocess

import reference.networks
import torch
import torchvision

ROOT = pathlib.Path(__file__).parents[2]
TOOL = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", ROOT / "build" / "release")) / "tests" / "parity_tool"
torch.set_num_threads(1)  # sums in the order in which the tool's one thread makes them
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
PROCESSES = multiprocessing.get_context("fork")


def request(model, **changes):
    """What the tool is asked to do, with the values that most tests share."""
    return {
        "model": model, "num_classes": 10, "seed": 0, "zero_init_residual": False, "channels_last": True,
        "train_mode": True, "lr": 0.01, "momentum": 0.9, "weight_decay": 1e-2, **changes,
    }


def start(asked, folder, name, rank_arguments=()):
    path, answer = folder / f"{name}.request", folder / f"{name}.answer"
    torch.save(asked, path)
    command = [TOOL, path, answer, *map(str, rank_arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True), answer


def finish(process, answer):
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return torch.load(answer, weights_only=False)


def run(asked, folder, name="single"):
    return finish(*start(asked, folder, name))


def run_ranks(asked, folder, world_size):
    """The tool's answers of all ranks of one process group, by rank."""
    store = folder / f"store{world_size}"
    running = [start(asked, folder, f"rank{r}of{world_size}", (r, world_size, store)) for r in range(world_size)]
    return [finish(*one) for one in running]


def state_of(answer):
    return {key.removeprefix("state/"): value for key, value in answer.items() if key.startswith("state/")}


def network_of(asked):
    """The model with the request's weights (drawn here where there are none yet)."""
    torch.manual_seed(1)
    network = reference.networks.make(asked["model"], num_classes=asked["num_classes"])
    if "state" in asked:
        network.load_state_dict(asked["state"])
    return network.to(memory_format=torch.channels_last) if asked["channels_last"] else network


def optimizer_of(asked, network):
    """SGD whose weight decay leaves out what has fewer than two dimensions, as ours does."""
    decayed = [p for p in network.parameters() if p.ndim > 1]
    plain = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": asked["weight_decay"]}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=asked["lr"], momentum=asked["momentum"])


def train(asked, module, optimizer, images, labels):
    """SGD over the steps of images [steps, n, ...]; returns the losses. `module` may be wrapped in DDP."""
    losses = []
    layout = torch.channels_last if asked["channels_last"] else torch.contiguous_format
    for batch, targets in zip(images, labels):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(batch.contiguous(memory_format=layout)), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def batches(steps, size, pixels, classes=10):
    generator = torch.Generator().manual_seed(5)
    images = torch.randn(steps, size, 3, pixels, pixels, generator=generator)
    return images, torch.randint(classes, (steps, size), generator=generator)


def calibrate(network, images):
    """BatchNorm statistics of real activations, without which a network in eval mode explodes."""
    network.train()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        network(images)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 0.1


def run_python_ranks(python_rank, asked, folder, world_size):
    """The answers of `python_rank(asked, answer, store, rank, world_size)` in a process a rank: a copy of this one, which has imported
    torch. The ranks meet in a file: no port that somebody else may take."""
    answers = [folder / f"python{rank}.answer" for rank in range(world_size)]
    running = [PROCESSES.Process(target=rank_and_end, args=(python_rank, asked, answer, folder / "python.store", rank, world_size))
               for rank, answer in enumerate(answers)]
    for process in running:
        process.start()
    for process in running:
        process.join(timeout=300)
        assert process.exitcode == 0, f"{process.name}: {process.exitcode}"
    return [torch.load(answer) for answer in answers]


def rank_and_end(python_rank, *arguments):
    os.environ.update(ENVIRONMENT)
    python_rank(*arguments)
    os._exit(0)  # a thread of Gloo may hold a tensor still, and end the process as Python ends


def damp(network):
    """Small residual branches: without normalisation a fresh ResNet amplifies rounding until it explodes."""
    for module in network.modules():
        if isinstance(module, torchvision.models.resnet.Bottleneck):
            torch.nn.init.constant_(module.bn3.weight, 0.1)
        elif isinstance(module, torchvision.models.resnet.BasicBlock):
            torch.nn.init.constant_(module.bn2.weight, 0.1)
