"""What starts and saves of trainings cost on the stand-in device, as it counts them (tests/support/stand_in_device.h)."""
import pytest

import trainer_ranks
from device_trainings import DATA, STAND_IN, counts

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
