"""The number of data loading workers: increased while training waits, bounded by memory, without an effect on batches."""
import os
import re

import numpy
import pytest
import trainer_ranks
from PIL import Image

pytestmark = [pytest.mark.python, pytest.mark.long]

STEPS = 24
SLOW_TO_LOAD = (*trainer_ranks.SMALL, "--batch-size=1", "--epochs=10", f"--max-steps={STEPS}", "--valid-epochs=0", "--seed=3",
                "--checkpoint-epochs=0")


@pytest.fixture(scope="module")
def large_pictures(tmp_path_factory):
    """Pictures that take several times as long to decode as a step takes to compute, on any processor: progressive ones."""
    root = tmp_path_factory.mktemp("large")
    random = numpy.random.default_rng(5)
    for i in range(32):
        small = Image.fromarray(random.integers(0, 255, (60, 80, 3), dtype=numpy.uint8))
        for part in ("train", "val"):
            folder = root / part / "ab"[i % 2]
            folder.mkdir(parents=True, exist_ok=True)
            if part == "train" or i < 4:
                small.resize((4600, 3450), Image.BICUBIC).save(folder / f"{i}.jpg", quality=95, progressive=True)
    return root


def test_auto_adds_workers_when_training_waits_without_changing_batches(tmp_path, large_pictures):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU: there is none to load with beside the one that computes")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus[:2])
    try:
        output = trainer_ranks.run(tmp_path / "auto", *SLOW_TO_LOAD, f"--data={large_pictures}", ranks=1)
    finally:
        os.sched_setaffinity(0, before)
    assert "each rank loads with 1 worker (auto: 2 CPUs, 1 of them for computing), 2 batches read ahead" in output
    grown = re.search(r"step (\d+): training waited for data; it continues with 2 workers instead of 1", output)
    assert grown and int(grown[1]) < STEPS, output
    # No CPU is left for more; what else is advised depends on who else uses these.
    assert "try --train-num-workers" not in output
    trainer_ranks.run(tmp_path / "one", *SLOW_TO_LOAD, f"--data={large_pictures}", "--train-num-workers=1", ranks=1)
    ours, theirs = (trainer_ranks.checkpoints(tmp_path / name)[-1] for name in ("auto", "one"))
    assert ours.name == theirs.name == f"step-{STEPS:08}.h5"
    assert [name for name in trainer_ranks.differences(ours, theirs) if name.startswith(("model", "optimizer"))] == []
    records = [trainer_ranks.records(tmp_path / name, "step") for name in ("auto", "one")]
    assert records[0] == records[1] != []


def test_prefetch_beyond_memory_is_rejected_before_reading(tmp_path):
    output = trainer_ranks.run(tmp_path, "--data=fake", *trainer_ranks.SMALL, "--batch-size=64", "--fake-size=1000", "--image-size=224",
                               "--train-num-workers=1024", "--prefetch=1024", ranks=1, code=64)
    assert re.search(r"rollcall: --train-num-workers: 1024: batches read ahead .* take [\d.]+ TiB, but each rank has [\d.]+ [GT]iB; "
                     r"try using fewer workers, or --prefetch=1", output), output
