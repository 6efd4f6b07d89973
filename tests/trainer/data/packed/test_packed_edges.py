"""Other programs see a repacked picture as its original, up to its edges, where they interpolate chroma that has fewer columns than the
picture."""
import functools
import itertools
import os
import pathlib
import sysconfig

import pytest

h5py = pytest.importorskip("h5py")
np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")

from test_packed_h5py import pack, packed_images, picture  # noqa: E402

pytestmark = pytest.mark.python
SAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}


def swept_sizes():
    """Every pair of sizes modulo 16, the largest MCU here, in pictures of several tiles; every width in tiny and larger ones."""
    rest = range(1, 17)
    pairs = [(128 + width, height) for width, height in itertools.product(rest, rest)]
    return pairs + [(base + width, 16 + 5 * width % 16) for base in (0, 16, 48, 192, 480) for width in rest]


@functools.cache
def rough_picture():
    """So rough that a pixel at the edge depends visibly on its neighbours."""
    noise = np.random.default_rng(5).integers(-40, 41, (48, 512, 3))
    levels = np.asarray(picture(11, 512, 48)).astype(int) + noise
    return Image.fromarray(np.clip(levels, 0, 255).astype(np.uint8))


def save_sweep(root):
    whole = rough_picture()
    for (name, subsampling), progressive in itertools.product(SAMPLINGS.items(), (False, True)):
        folder = root / f"{name.replace(':', '')}{' progressive' * progressive}"
        folder.mkdir(parents=True)
        for width, height in swept_sizes():
            whole.crop((0, 0, width, height)).save(folder / f"{width}x{height}.jpg", quality=85, subsampling=subsampling,
                                                   progressive=progressive)


def save_others(root):
    """Pictures that differ in something else than size and sampling, of every width modulo 16."""
    kinds = {"grey": ("L", {}), "inks": ("CMYK", {}), "restarts": ("RGB", {"subsampling": 2, "restart_marker_blocks": 3}),
             "turned": ("RGB", {"subsampling": 1, "exif": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"})}
    for name, (mode, options) in kinds.items():
        (root / name).mkdir(parents=True)
        for width in range(129, 145):
            part = rough_picture().crop((0, 0, width, 37)).convert(mode)
            part.save(root / name / f"{width}.jpg", quality=85, **options)


def differences(packed, root):
    """For each picture its name, whether it is tiled, and the columns in which the Dataset that the page prints gives other pixels than
    Pillow reads from the original."""
    dataset = packed_images(packed)
    with h5py.File(packed, "r") as file:
        data, bounds = file["name_data"][()].tobytes(), file["name_offset"][()]
        tiled = file["tile_count"][()] > 0
    found = []
    for index, (begin, end) in enumerate(zip(bounds, bounds[1:])):
        original = np.asarray(Image.open(root / data[begin:end].decode()).convert("RGB"))
        pixels = np.asarray(dataset[index][0])
        assert pixels.shape == original.shape, data[begin:end]
        found.append((data[begin:end].decode(), bool(tiled[index]), sorted(set(np.nonzero((pixels != original).any(-1))[1].tolist()))))
    return found


def expect_original_pixels(packed, root):
    found = differences(packed, root)
    different = [(name, columns) for name, _, columns in found if columns]
    assert not different, f"{len(different)} of {len(found)}; the first, with their columns: {different[:5]}"
    return sum(tiled for _, tiled, _ in found)


def test_repacked_edges_match_for_every_sampling_and_size(tmp_path):
    save_sweep(tmp_path / "tree")
    assert expect_original_pixels(pack(tmp_path / "tree", "sweep.h5", "--repack"), tmp_path / "tree") == 6 * len(swept_sizes())


def test_repacked_edges_match_for_grey_restart_and_rotated_images(tmp_path):
    save_others(tmp_path / "tree")
    assert expect_original_pixels(pack(tmp_path / "tree", "others.h5", "--repack"), tmp_path / "tree") == 3 * 16  # all but the inks


def test_resize_gives_equal_pixels_with_and_without_repack(tmp_path):
    """The same pictures are encoded with and without --repack."""
    save_others(tmp_path / "tree")
    kept = packed_images(pack(tmp_path / "tree", "kept.h5", "--resize=29"))
    repacked = packed_images(pack(tmp_path / "tree", "repacked.h5", "--resize=29", "--repack"))
    for index in range(len(kept)):
        assert np.array_equal(kept[index][0], repacked[index][0]), index


def jpegs_of_other_encoders():
    """JPEG files that installed packages bring along: cameras, drawing programs and other libraries made them."""
    roots = {pathlib.Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")}
    roots |= {pathlib.Path("/usr/share"), pathlib.Path("/usr/lib/python3/dist-packages")}
    found = {}
    for folder, _, names in itertools.chain.from_iterable(os.walk(root) for root in sorted(roots)):
        for path in (pathlib.Path(folder, name) for name in names if name.lower().endswith((".jpg", ".jpeg"))):
            content = path.read_bytes() if path.is_file() and path.stat().st_size < 4 << 20 else b""
            if content.startswith(b"\xff\xd8"):
                found.setdefault(content, path)  # each content once
    return sorted(found.values())[:200]


def test_repacked_edges_match_for_files_of_other_encoders(tmp_path, record_property):
    paths = jpegs_of_other_encoders()
    if not paths:
        pytest.skip("no installed package brings a JPEG file along")
    record_property("files", [str(path) for path in paths])
    folder = tmp_path / "tree" / "installed"
    folder.mkdir(parents=True)
    for index, path in enumerate(paths):
        (folder / f"{index:03}.jpg").write_bytes(path.read_bytes())
    packed = pack(tmp_path / "tree", "installed.h5", "--repack", "--bad-samples=skip")
    print(expect_original_pixels(packed, tmp_path / "tree"), "repacked of", *paths, sep="\n  ")
