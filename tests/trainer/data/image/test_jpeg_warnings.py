"""JPEG files for which libjpeg warns although they are complete: they decode like Pillow in every crop, packed and repacked."""
import io
import os
import pathlib
import subprocess

import decoded_pictures
import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.python
BUILD = pathlib.Path(os.environ.get("ROLLCALL_BUILD_DIR", pathlib.Path(__file__).parents[4] / "build/release"))
WIDTH, HEIGHT = 150, 110
FOREIGN = bytes([1, 2, 0, 0, 0xFF, 0, 7, 8, 9, 10, 11, 12])


def encoded(mode="RGB", **options):
    random = np.random.default_rng(5)
    small = Image.fromarray(random.integers(0, 256, (9, 12, 4), dtype=np.uint8), "RGBA").resize((WIDTH, HEIGHT), Image.BICUBIC)
    array = np.asarray(small).astype(int) + random.integers(-20, 20, (HEIGHT, WIDTH, 4))
    picture = Image.fromarray(np.clip(array, 0, 255).astype(np.uint8), "RGBA")
    file = io.BytesIO()
    (Image.frombytes("CMYK", picture.size, picture.tobytes()) if mode == "CMYK" else picture.convert(mode)).save(
        file, "JPEG", quality=90, **options)
    return file.getvalue()


def segments(file):
    """The file's pieces: a marker with what follows it, up to the next one."""
    starts = [0]
    at = 2
    while at < len(file):
        starts.append(at)
        if file[at + 1] == 0xD9:
            break
        at += 2 if 0xD0 <= file[at + 1] <= 0xD7 else 2 + int.from_bytes(file[at + 2:at + 4], "big")
        while file[at] != 0xFF or file[at + 1] == 0:  # coded data
            at += 1
    return [file[begin:end] for begin, end in zip(starts, [*starts[1:], len(file)])]


def of(pieces, marker):
    return next(i for i, piece in enumerate(pieces) if piece[1] == marker)


def with_jfif(file, *version):
    return file.replace(b"JFIF\0\1\1", b"JFIF\0" + bytes(version))


def with_foreign_bytes(file, marker):
    pieces = segments(file)
    pieces.insert(of(pieces, marker), FOREIGN)
    return b"".join(pieces)


def with_adobe_transform(file, transform):
    marker = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" + bytes([transform])
    at = file.find(b"Adobe")
    return file[:2] + marker + file[2:] if at < 0 else file[:at + 11] + bytes([transform]) + file[at + 12:]


def with_scan_parameters(file, *parameters):
    pieces = segments(file)
    scan = of(pieces, 0xDA)
    header = 2 + int.from_bytes(pieces[scan][2:4], "big")
    pieces[scan] = pieces[scan][:header - 3] + bytes(parameters) + pieces[scan][header:]
    return b"".join(pieces)


def with_ac_scan_first(file):
    pieces = segments(file)
    dc = of(pieces, 0xDA)
    tables = dc - 1  # the DC scan's
    later = next(i for i in range(dc + 1, len(pieces)) if pieces[i][1] == 0xDA)
    assert pieces[tables][1] == 0xC4
    return b"".join(pieces[:tables] + pieces[dc + 1:later + 1] + pieces[tables:dc + 1] + pieces[later + 1:])


KINDS = {
    "JFIF 0.00": with_jfif(encoded(), 0, 0),
    "JFIF 2.00": with_jfif(encoded(), 2, 0),
    "JFIF 1.99": with_jfif(encoded(), 1, 99),
    "foreign bytes before the frame": with_foreign_bytes(encoded(), 0xC0),
    "foreign bytes before the end": with_foreign_bytes(encoded(), 0xD9),
    "foreign bytes before the end of a progressive file": with_foreign_bytes(encoded(progressive=True), 0xD9),
    "an unknown Adobe transform": with_adobe_transform(encoded(), 7),
    "an unknown Adobe transform in CMYK": with_adobe_transform(encoded("CMYK"), 2),
    "zeros in the scan's header": with_scan_parameters(encoded(), 0, 0, 0),
    "an AC scan before the DC scan": with_ac_scan_first(encoded(progressive=True)),
}


def dump(*arguments):
    done = decoded_pictures.run(*arguments)
    return done.returncode, np.frombuffer(done.stdout, np.uint8)


def crops():
    return [(0, 0, 16, 16), (WIDTH - 17, HEIGHT - 17, 16, 16), (40, 30, 64, 64)]


@pytest.mark.parametrize("name", KINDS)
def test_jpegs_with_libjpeg_warnings_decode_like_pillow_in_every_crop(tmp_path, name):
    path = tmp_path / "picture.jpg"
    path.write_bytes(KINDS[name])
    expected = np.asarray(Image.open(path).convert("RGB"))
    code, pixels = dump("decode", path)
    assert code == 0
    assert np.array_equal(pixels, expected.ravel())
    for left, top, width, height in crops():
        code, pixels = dump("crop_levels", left, top, width, height, width, path)
        assert code == 0
        assert np.array_equal(pixels, expected[top:top + height, left:left + width].ravel())


def test_jpegs_with_libjpeg_warnings_are_packed_and_repacked(tmp_path):
    h5py = pytest.importorskip("h5py")
    for i, file in enumerate(KINDS.values()):
        folder = tmp_path / "tree" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i:02}.jpg").write_bytes(file)
    for option, repacked in ([], 0), (["--repack"], len(KINDS) - 1):
        out = tmp_path / f"{len(option)}.h5"
        done = subprocess.run([BUILD / "trainer/rollcall-pack", *option, tmp_path / "tree", out], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr
        with h5py.File(out) as packed:
            assert (packed["tile_count"][()] > 0).sum() == repacked


def damaged(file):
    """A restart marker in the last rows has a wrong number."""
    at = file.rfind(b"\xff\xd5")
    return file[:at] + b"\xff\xd1" + file[at + 2:]


@pytest.mark.parametrize("spoil", [damaged, lambda file: with_foreign_bytes(file, 0xD1), lambda file: file[:len(file) * 9 // 10],
                                   lambda file: file[:-2]])
def test_damage_is_detected_independently_of_the_crop(tmp_path, spoil):
    path = tmp_path / "picture.jpg"
    path.write_bytes(encoded(restart_marker_rows=1))
    codes = set()
    for left, top, width, height in crops():
        assert dump("crop_levels", left, top, width, height, width, path)[0] == 0
    path.write_bytes(spoil(path.read_bytes()))
    for left, top, width, height in crops():
        codes.add(dump("crop_levels", left, top, width, height, width, path)[0])
    assert codes == {65}
