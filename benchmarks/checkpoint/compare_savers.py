#!/usr/bin/env python3
"""Saving and loading the state of ResNet-50 with AdamW: rollcall's checkpoints beside PyTorch's and safetensors, on one
file system, in turn. Every save ends with the file on the device (fsync)."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import measure  # noqa: E402

if "torch" not in sys.modules:
    try:
        import torch
    except ImportError:  # the interpreter that has it
        os.execv(measure.python(), [measure.python(), *sys.argv])
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torchvision  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402


def make_state():
    torch.manual_seed(0)
    model = torchvision.models.resnet50()
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    names = [name for name, _ in model.named_parameters()]
    state = {f"model.{k}": v for k, v in model.state_dict().items()}
    for i, moments in optimizer.state_dict()["state"].items():
        state |= {f"optimizer.{names[i]}.{k}": v for k, v in moments.items()}
    return state


def fsync(path):
    for file in [path] if path.is_file() else [*path.iterdir()]:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    descriptor = os.open(path.parent, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def remove(path):
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    os.sync()


def timed(work):
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


class Peers:
    def __init__(self, folder, state):
        self.folder, self.state = folder, state
        self.bytes = sum(t.numel() * t.element_size() for t in state.values())
        self.raw = folder / "raw.source"
        self.raw.write_bytes(os.urandom(1 << 20) * (self.bytes >> 20))
        self.raw.read_bytes()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    def saved(self, name, save):
        path = self.folder / name
        remove(path)
        return timed(lambda: (save(path), fsync(path)))

    def round(self):
        times = {}
        target = self.folder / "dd"
        remove(target)
        times["dd conv=fsync"] = timed(lambda: subprocess.run(
            ["dd", f"if={self.raw}", f"of={target}", "bs=8M", "conv=fsync"], check=True, stderr=subprocess.DEVNULL))
        remove(target)
        times["torch.save + fsync"] = self.saved("a.pt", lambda path: torch.save(self.state, path))
        torch.load(self.folder / "a.pt", weights_only=True)
        times["torch.load"] = timed(lambda: torch.load(self.folder / "a.pt", weights_only=True))
        remove(self.folder / "a.pt")
        times["safetensors + fsync"] = self.saved("a.safetensors", lambda path: save_file(self.state, path))
        load_file(self.folder / "a.safetensors")
        times["safetensors load"] = timed(lambda: load_file(self.folder / "a.safetensors"))
        remove(self.folder / "a.safetensors")
        writer = dcp.FileSystemWriter(self.folder / "dcp", single_file_per_rank=True, sync_files=True, thread_count=1)
        times["DCP + fsync"] = self.saved("dcp", lambda path: dcp.save({"s": self.state}, storage_writer=writer))
        remove(self.folder / "dcp")
        writer = dcp.FileSystemWriter(self.folder / "dcp", single_file_per_rank=True, sync_files=True, thread_count=1)
        begun = time.monotonic()
        future = dcp.async_save({"s": self.state}, storage_writer=writer)
        times["DCP async, stall"] = time.monotonic() - begun
        future.result()
        times["DCP async, durable after"] = time.monotonic() - begun
        remove(self.folder / "dcp")
        return times


def ours(program, shapes, folder):
    os.sync()
    line = json.loads(measure.run([program, shapes, folder, "1"]))
    remove(folder / "step-00000001.h5")
    return {"rollcall, verified from the device": line["save"],
            "rollcall, verified from memory": line["save_read_back_memory"],
            "rollcall load + verify": line["load_verify"],
            "  from the device: structures created after": line["created_at"],
            "  from the device: data on it and read back after": line["data_verified_at"],
            "  from the device: sealed after": line["sealed_at"], "  from the device: seal read back after": line["verified_at"]}


def main():
    parser = measure.parser(__doc__, 5)
    parser.add_argument("--folder", type=pathlib.Path, help="where to write (default: the temporary folder)")
    options = parser.parse_args()
    state = make_state()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        shapes = folder / "shapes"
        shapes.write_text("".join(f"{k} {t.numel() * 4}\n" for k, t in state.items()))
        peers = Peers(folder, state)
        program = options.build / "benchmarks" / "checkpoint" / "checkpoint_speed"
        rounds = [{**ours(program, shapes, folder), **peers.round()} for _ in range(options.runs + 1)][1:]
        dist.destroy_process_group()
    medians = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    if options.json:
        print(json.dumps({"bytes": peers.bytes, "seconds": medians, "runs": len(rounds)}))
        return
    print(f"{peers.bytes / 1e6:.0f} MB in {len(state)} tensors; medians of {len(rounds)} rounds; load {os.getloadavg()[0]:.1f}")
    for name, seconds in medians.items():
        print(f"  {name:52} {seconds * 1e3:8.1f} ms  {peers.bytes / seconds / 1e9:6.2f} GB/s")
    for mine in ("rollcall, verified from the device", "rollcall, verified from memory"):
        for theirs in ("safetensors + fsync", "torch.save + fsync", "DCP + fsync", "dd conv=fsync"):
            ratio = statistics.median(r[theirs] / r[mine] for r in rounds)
            print(f"  {mine}: {ratio:.2f} times as fast as {theirs}")
    ratio = statistics.median(r["torch.load"] / r["rollcall load + verify"] for r in rounds)
    print(f"  rollcall load + verify: {ratio:.2f} times as fast as torch.load")


if __name__ == "__main__":
    main()
