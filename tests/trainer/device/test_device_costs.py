"""What starts and saves of trainings cost on the stand-in device, as it counts them (tests/support/stand_in_device.h)."""
import json

import pytest

import trainer_ranks
from device_trainings import DATA, STAND_IN, counts, last

h5py = pytest.importorskip("h5py")

pytestmark = [pytest.mark.python, pytest.mark.long]


def counted(folder, *options, ranks=2, env=()):
    """What the ranks counted in one training, each by name."""
    report = folder / "counts"
    trainer_ranks.run(folder, *DATA, STAND_IN, *options, ranks=ranks, env={**dict(env), "STAND_IN_WAITS": str(report)})
    found = counts(report)
    assert len(found) == ranks
    return found


def test_algorithms_are_searched_for_shapes_of_the_training_only(tmp_path):
    """Sharded models have no warm-up, so they see no other shapes."""
    options = ("--max-steps=3", "--valid-epochs=0", "--checkpoint-epochs=0")
    warm, cold = (counted(tmp_path / parallel, f"--parallel={parallel}", *options) for parallel in ("ddp", "fsdp"))
    assert [of_rank["searches"] for of_rank in warm] == [of_rank["searches"] for of_rank in cold]
    assert min(of_rank["searches"] for of_rank in warm) > 0
    assert [of_rank["searches"] for of_rank in counted(tmp_path / "same bits", "--deterministic=on", *options)] == [0, 0]


PACKED = 64 << 10  # bytes of a tensor that is small
SAVES = ("--valid-epochs=0", "--epochs=1", "--fake-size=200", "--max-steps=12", "--optimizer=adamw")


def large_tensors(path):
    """How many tensors of a checkpoint are not small."""
    found = []
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) and item.nbytes > PACKED
                        and name.startswith(("model/", "optimizer/state/")) else None)
    return len(found)


@pytest.mark.parametrize("options", [("--checkpoint-mode=async",), ("--checkpoint-mode=sync",), ("--parallel=fsdp",)],
                         ids=["async", "sync", "fsdp"])
def test_a_save_packs_small_tensors_and_records_few_events(tmp_path, options):
    """Both ranks together, by the difference of two trainings that only save more or less often."""
    ranks, more_saves = 2, 4
    few, many = (counted(tmp_path / str(every), *SAVES, f"--checkpoint-steps={every}", *options, ranks=ranks) for every in (6, 2))

    def of_a_save(name):
        return sum(of_rank[name] for of_rank in many) - sum(of_rank[name] for of_rank in few)

    large = large_tensors(last(tmp_path / "2"))
    packs = 4  # whole numbers and floats, each of the optimizer and not
    assert 0 < of_a_save("events") <= 2 * ranks * more_saves
    pieces = ranks if "--parallel=fsdp" in options else 1  # of each tensor
    assert 0 < of_a_save("copies_to_host") <= (ranks * packs + pieces * large) * more_saves
    assert of_a_save("reordered_copies") == 0


def stalls(folder, *options, slow, ranks=1):
    """Seconds by step of saves; `slow`: the rank that waits a long time for its device whenever it does so."""
    options = (*DATA, STAND_IN, *SAVES, "--checkpoint-steps=4", *options)
    trainer_ranks.finish(trainer_ranks.start(folder, *options, ranks=ranks, prefixes={slow: ["env", f"STAND_IN_HOST_WAIT={WAIT_MS}"]}))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["stall_seconds"] for line in lines if line["event"] == "checkpoint"}


WAIT_MS = 300


@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("ranks, slow", [(1, 0), (2, 1)], ids=["own finite check", "barrier"])
def test_the_stall_of_a_save_is_all_that_lies_between_two_steps(tmp_path, mode, ranks, slow):
    """A save waits once for the device, to see whether all is finite, and ranks wait for each other."""
    found = stalls(tmp_path, f"--checkpoint-mode={mode}", ranks=ranks, slow=slow)
    assert set(found) == {4, 8, 12} and min(found.values()) >= WAIT_MS / 1000
