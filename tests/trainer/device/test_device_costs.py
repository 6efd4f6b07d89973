"""What starts and saves of trainings cost on the stand-in device, as it counts them (tests/support/stand_in_device.h)."""
import json

import pytest

import trainer_ranks
from device_trainings import DATA, KERNELS, RANDOM, STAND_IN, counts, last
from trainer_ranks import differences, model_in, records

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


def test_weights_at_once_are_cast_once_a_step(tmp_path):
    """Whatever the number of batches; by autocast each weight is cast for each batch."""
    batches, more_steps = 3, 2

    def casts(part, steps):
        of_rank, = counted(tmp_path / f"{part} {steps}", "--precision=bf16", f"--grad-accumulation={batches}", f"--max-steps={steps}",
                           "--valid-epochs=0", f"--own-kernels={part}", ranks=1, env=KERNELS)
        return of_rank["casts"]

    saved = [casts("basic", steps) - casts("weights-at-once", steps) for steps in (3, 3 + more_steps)]
    convolutions = sum(values.ndim == 4 for values in model_in(last(tmp_path / "basic 3")).values())
    weights = convolutions + len(("fc.weight", "fc.bias"))
    assert saved[1] - saved[0] == more_steps * (batches * weights - 1)


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


BATCH, SIZE = 16, 64
PLACE = 1 << 20  # for a batch of float32: as many bytes as it has, up to a power of two
assert PLACE / 2 < BATCH * SIZE * SIZE * 3 * 4 <= PLACE
SMALL_PARTS = PLACE / 10  # labels and what is like them


@pytest.mark.parametrize("options, validations", [(("--valid-epochs=0", "--max-steps=12"), 0), (("--max-steps=36",), 2),
                                                  (("--max-steps=12",), 1)],
                         ids=["training", "two epochs", "batches left"])
def test_workers_make_page_locked_memory_for_eight_batches(tmp_path, options, validations):
    """Once for training and validation. A training that ends in the middle of an epoch has read its next batches then."""
    of_rank, = counted(tmp_path, f"--batch-size={BATCH}", f"--image-size={SIZE}", "--prefetch=4", "--train-num-workers=6",
                       "--valid-num-workers=6", "--fake-size=600", "--checkpoint-epochs=0", "--keep-best=0", *options, ranks=1)
    by_workers = of_rank["page_locked_bytes"] - of_rank["page_locked_by_main"]
    assert 8 * PLACE <= by_workers < 8 * PLACE + SMALL_PARTS
    assert len(records(tmp_path, "validation")) == validations


ERASES = ("--random-erase=0.9", "--random-erase-value=random")


@pytest.mark.parametrize("options, dtype", [((), "uint8"), (RANDOM, "uint8"), ((*ERASES, "--precision=bf16"), "bfloat16"), (ERASES, "float32")],
                         ids=["plain", "mixing", "noise in bf16", "noise"])
def test_images_are_uint8_on_a_device_unless_they_have_random_values(tmp_path, options, dtype):
    locked = {}
    for given in {"auto", dtype, "float32"}:
        of_rank, = counted(tmp_path / given, f"--image-dtype={given}", "--epochs=1", "--optimizer=sgd", *options, ranks=1)
        locked[given] = of_rank["page_locked_bytes"]
    assert locked["auto"] == locked[dtype] and (locked["auto"] < locked["float32"] or dtype == "float32")
    assert differences(last(tmp_path / "auto"), last(tmp_path / dtype)) == []
