"""The programs of this version read what each earlier one wrote (tests/data/VERSION, made by write_files.py): settings, an installation,
packed images, a checkpoint, records. A file of a later format is refused, and the message names the format's version. Processes of two
versions that meet: tests/runtime/rendezvous/admission_test.cpp, tests/spank_plugin/test_upgrade.py."""
import json
import lzma
import pathlib
import shutil
import struct
import subprocess
import tomllib

import pytest

from common_fixtures import built

pytestmark = pytest.mark.python
# What version 0.1.0 trained with by default, for any optimizer.
EARLIER_DEFAULTS = ("--lr=3e-4", "--lr-schedule=none", "--weight-decay=0.01")
DATA = pathlib.Path(__file__).parents[1] / "data"
VERSIONS = sorted(path.name for path in DATA.iterdir())
KEPT = {"config.toml", "etc/rollcall/site.toml", "etc/slurm/plugstack.conf", "metrics.jsonl", "step-00000001.h5.xz", "train.h5.xz", "val.h5.xz"}


class Run:
    """The folder of a run of an earlier version, as it left it."""

    def __init__(self, kept, folder):
        self.kept, self.folder = kept, folder
        self.data = folder / "data"
        self.run = folder / "rollcall" / "kept"
        self.checkpoint = self.run / "checkpoints" / "step-00000001.h5"
        for path in (self.data / "train.h5", self.data / "val.h5", self.checkpoint):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(lzma.decompress((kept / f"{path.name}.xz").read_bytes()))
        shutil.copy(kept / "metrics.jsonl", self.run)

    def call(self, program, *arguments, code=0, **variables):
        own = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "SCRATCH": str(self.folder), "OMP_NUM_THREADS": "1", **variables}
        done = subprocess.run([built(program), *map(str, arguments)], cwd=self.folder, env=own, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def train(self, *options, defaults=EARLIER_DEFAULTS, **more):
        return self.call("trainer/rollcall-train", "--data=data", "--model=resnet20", "--image-size=32", "--batch-size=4", "--optimizer=sgd",
                         "--run-name=kept", "--report=off", *defaults, *options, **more)


@pytest.fixture(params=VERSIONS)
def earlier(request, tmp_path):
    return Run(DATA / request.param, tmp_path)


def test_every_version_kept_files_of_each_kind():
    assert "0.1.0" in VERSIONS
    for version in VERSIONS:
        files = {str(path.relative_to(DATA / version)) for path in (DATA / version).rglob("*") if path.is_file()}
        assert files >= KEPT, version


def test_this_version_keeps_its_files():
    assert subprocess.run([built("runtime/rollcall"), "--version"], capture_output=True, text=True, check=True).stdout.split()[1] in VERSIONS


@pytest.mark.parametrize(("program", "table"), [("runtime/rollcall", None), ("trainer/rollcall-train", "trainer")])
def test_a_users_settings_keep_their_names_and_values(earlier, program, table):
    (earlier.folder / "rollcall").mkdir(exist_ok=True)
    user = shutil.copy(earlier.kept / "config.toml", str(earlier.folder / "rollcall"))
    shown, _ = json.JSONDecoder().raw_decode(earlier.call(program, "--print-config", "--json", XDG_CONFIG_HOME=str(earlier.folder)))
    shown = {name.replace(".", "-"): entry for name, entry in shown.items()}
    given = tomllib.loads(pathlib.Path(user).read_text())
    given = given[table] if table else {name: value for name, value in given.items() if name != "trainer"}
    assert len(given) > 30
    for name, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        assert (shown[name]["value"], shown[name]["origin"]) == (text, user), name


def test_a_sites_profile_is_read(earlier):
    profile = earlier.kept / "etc" / "rollcall" / "site.toml"
    shown = json.loads(earlier.call("runtime/rollcall", "--print-config", "--json", ROLLCALL_SITE_CONFIG=str(profile)))
    given = [f"{table}.{key}" for table, keys in tomllib.loads(profile.read_text()).items() if table != "site" for key in keys]
    assert len(given) > 5 and all(shown[name]["origin"] == str(profile) for name in given)


def test_an_installation_is_taken_back(earlier):
    shutil.copytree(earlier.kept / "etc", earlier.folder / "image" / "etc")
    (earlier.folder / "image" / "etc" / "slurm" / "slurm.conf").write_text("ClusterName=image\n")
    earlier.call("runtime/rollcall", "uninstall", "--site", f"--root={earlier.folder}/image")
    left = [path.name for path in (earlier.folder / "image").rglob("*") if path.is_file()]
    assert left == ["slurm.conf"]


def test_packed_images_are_read(earlier):
    said = earlier.call("trainer/rollcall-pack", "verify", earlier.data / "train.h5", earlier.data / "val.h5")
    assert "train.h5: 16 images, 0 damaged" in said and "val.h5: 8 images, 0 damaged" in said


def test_a_checkpoint_is_shown_and_verified(earlier):
    assert ": intact" in earlier.call("trainer/rollcall-checkpoint", "verify", earlier.checkpoint)
    assert "step 1, 0 epochs done and 1 step of the next" in earlier.call("trainer/rollcall-checkpoint", "show", earlier.checkpoint)


def test_a_training_goes_on_from_its_checkpoint_with_each_weight(earlier):
    """With its own settings it is the same training. A step at a rate that rounds to nothing then leaves each weight as it was read."""
    import h5py
    assert "--lr was 3e-4 and is 0.0015625, --lr-schedule was none and is cosine" in earlier.train("--max-steps=1", defaults=(), code=76)
    assert f"{earlier.checkpoint} is the end of this training, at step 1" in earlier.train("--max-steps=1")
    said = earlier.train("--max-steps=2", "--resume=continue-with-changes", "--lr=1e-60")
    assert f"resumed from {earlier.checkpoint} at epoch 1, step 1" in said
    with h5py.File(earlier.checkpoint) as before, h5py.File(earlier.checkpoint.with_name("step-00000002.h5")) as after:
        names = ["model/" + key.decode().replace(".", "/") for key in before["model_keys"]]
        weights = [name for name in names if name.endswith(("/weight", "/bias"))]
        assert len(weights) == 65 and [name for name in weights if (before[name][()] != after[name][()]).any()] == []


def test_records_are_reported(earlier):
    report = json.loads(earlier.call("trainer/rollcall-report", "--json", earlier.run))
    assert (report["state"], report["step"], report["best_top1"], report["notes"]) == ("finished", 1, 0.25, [])


# --- files of a later version

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_a_checkpoint_of_a_later_format_is_refused_by_its_version(earlier):
    """docs/reference/checkpoint_format.md: the version is at 8 of the commit header, whose last four bytes are its checksum."""
    data = bytearray(earlier.checkpoint.read_bytes())
    major, = struct.unpack_from("<I", data, 8)
    struct.pack_into("<I", data, 8, 2)
    struct.pack_into("<I", data, 60, crc32c(data[:60]))
    earlier.checkpoint.write_bytes(data)
    message = "has format version 2, but this program reads versions up to 1.x; try installing a newer rollcall"
    assert major == 1
    assert message in earlier.call("trainer/rollcall-checkpoint", "verify", earlier.checkpoint, code=76)
    assert message in earlier.train(f"--resume={earlier.checkpoint}", "--max-steps=2", code=76)


def test_packed_images_of_a_later_format_are_refused_by_their_version(earlier):
    import h5py
    import numpy
    with h5py.File(earlier.data / "train.h5", "r+") as file:
        version = h5py.h5a.open(file.id, b"format_version")
        version.write(numpy.array(b"2.0", dtype=version.dtype))
    message = "has format version 2.0, but this program reads only versions up to 1.x; try upgrading rollcall"
    assert message in earlier.call("trainer/rollcall-pack", "verify", earlier.data / "train.h5", code=76)
    assert message in earlier.train(code=76)


def test_records_of_a_later_schema_are_reported_with_a_note(earlier):
    records = earlier.run / "metrics.jsonl"
    records.write_text(records.read_text().replace('"schema":1,', '"schema":2,'))
    report = json.loads(earlier.call("trainer/rollcall-report", "--json", earlier.run))
    assert report["notes"] == ["a newer rollcall wrote this record (schema 2, this program knows 1): unknown parts are skipped"]
