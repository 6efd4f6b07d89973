"""WebP, TIFF, GIF, AVIF and BMP: every supported kind of file decodes like Pillow; the others are rejected by name."""
import io
import struct
import subprocess

import h5py
import numpy as np
import pytest
from decoded_pictures import BUILD, dump, photo, refusal, run
from PIL import Image, ImageOps

pytestmark = pytest.mark.python
ORIENTATION = 0x0112


def assert_decodes_like_pillow(path, what=""):
    picture = Image.open(path)
    assert np.array_equal(dump(np.uint8, "decode", path), np.asarray(picture.convert("RGB")).ravel()), what
    upright = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    assert np.array_equal(dump(np.uint8, "decode_upright", path), np.asarray(upright).ravel()), what


SAVED = {
    "WEBP": (["RGB", "RGBA", "L", "P"], [{"lossless": True}, {"lossless": True, "exact": True}, {"quality": 80}, {"quality": 20, "method": 6}]),
    "GIF": (["RGB", "RGBA", "L", "P"], [{"interlace": 0}, {"interlace": 1}]),
    "BMP": (["RGB", "RGBA", "L", "P", "1"], [{}]),
    "AVIF": (["RGB", "RGBA", "L"], [{"quality": 90}, {"quality": 50, "subsampling": "4:4:4"}, {"quality": 50, "subsampling": "4:2:2"},
                                    {"quality": 60, "subsampling": "4:0:0"}, {"quality": 60, "range": "limited"}]),
    "TIFF": (["1", "L", "LA", "P", "RGB", "RGBA", "RGBX", "CMYK"],
             [{"compression": name} for name in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "zstd", "tiff_lzma")]),
}


@pytest.mark.parametrize("form", SAVED)
def test_images_saved_by_pillow_decode_like_pillow(tmp_path, form):
    modes, choices = SAVED[form]
    for mode in modes:
        for i, options in enumerate(choices):
            photo(i, mode, (151, 97)).save(tmp_path / "a", form, **options)
            assert_decodes_like_pillow(tmp_path / "a", (mode, options))


@pytest.mark.parametrize("mode, compression", [
    ("1", "group3"), ("1", "group4"), ("L", "jpeg"), ("RGB", "jpeg"), ("RGBA", "jpeg"), ("CMYK", "jpeg"), ("YCbCr", "jpeg"),
    ("YCbCr", "tiff_lzw"), ("YCbCr", "packbits")])
def test_tiff_of_special_compression_decodes_like_pillow(tmp_path, mode, compression):
    photo(3, mode).save(tmp_path / "a", "TIFF", compression=compression)
    assert_decodes_like_pillow(tmp_path / "a")


@pytest.mark.parametrize("form", ["WEBP", "TIFF", "AVIF", "PNG"])
def test_exif_orientation_is_applied_on_request(tmp_path, form):
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        photo(5, size=(60, 40)).save(tmp_path / "a", form, exif=exif)
        assert_decodes_like_pillow(tmp_path / "a", orientation)


@pytest.mark.parametrize("form", ["WEBP", "GIF", "TIFF", "AVIF"])
def test_the_first_frame_of_several_is_used(tmp_path, form):
    mode = "P" if form == "GIF" else "RGBA"
    photo(1, mode, (50, 40)).save(tmp_path / "a", form, save_all=True, append_images=[photo(2, mode, (50, 40))])
    assert_decodes_like_pillow(tmp_path / "a")


@pytest.mark.parametrize("options", [{}, {"transparency": 3}])
def test_a_gif_frame_may_differ_from_the_canvas(tmp_path, options):
    photo(2, "P", (50, 40)).save(tmp_path / "a", "GIF", interlace=1, **options)
    file = bytearray((tmp_path / "a").read_bytes())
    frame = file.index(b",", 13 + 3 * 256)
    for canvas, place in (((70, 55), (9, 5)), ((20, 90), (3, 60))):
        file[6:10] = struct.pack("<HH", *canvas)
        file[frame + 1:frame + 5] = struct.pack("<HH", *place)
        (tmp_path / "a").write_bytes(file)
        assert_decodes_like_pillow(tmp_path / "a", canvas)


def gif_with_a_code_that_no_table_has():
    """Three pixels in codes of 9 bits: 5, then 300 where the table ends with 257."""
    return b"GIF89a\3\0\1\0\0\0\0,\0\0\0\0\3\0\1\0\0\x08\x03\x05\x58\x02\0;"


def bmp_file(bits, header, top_down=False, masks=None, seed=1):
    random = np.random.default_rng(seed)
    width, height = 29, 17
    pixels = random.bytes((width * bits + 31) // 32 * 4 * height)
    colours = random.bytes((3 if header == 12 else 4) * 2**bits) if bits <= 8 else b""
    fields = b"".join(struct.pack("<I", mask) for mask in masks or ())
    if header == 12:
        content = struct.pack("<HHHH", width, height, 1, bits)
    else:
        content = struct.pack("<iiHHIIIIII", width, -height if top_down else height, 1, bits, 3 if masks else 0, 0, 0, 0, 0, 0)
    content += fields if header > 40 else b""
    content += bytes(header - 4 - len(content))
    behind = fields[:12] if header == 40 else b""
    offset = 14 + header + len(behind) + len(colours)
    return b"BM" + struct.pack("<IHHII", 0, 0, 0, offset, header) + content + behind + colours + pixels


@pytest.mark.parametrize("header", [12, 40, 108, 124])
@pytest.mark.parametrize("bits", [1, 4, 8, 16, 24, 32])
def test_bmp_of_every_kind_decodes_like_pillow(tmp_path, bits, header):
    for top_down in (False, True) if header > 12 else (False,):
        (tmp_path / "a").write_bytes(bmp_file(bits, header, top_down))
        assert_decodes_like_pillow(tmp_path / "a", top_down)


@pytest.mark.parametrize("header", [40, 124])
@pytest.mark.parametrize("bits, masks", [
    (16, (0xF800, 0x7E0, 0x1F, 0)), (16, (0x7C00, 0x3E0, 0x1F, 0)), (32, (0xFF0000, 0xFF00, 0xFF, 0)),
    (32, (0xFF000000, 0xFF0000, 0xFF00, 0))])
def test_bmp_with_masks_decodes_like_pillow(tmp_path, bits, masks, header):
    (tmp_path / "a").write_bytes(bmp_file(bits, header, masks=masks))
    assert_decodes_like_pillow(tmp_path / "a")


def tiff_file(photometric, bits, samples, extras=(), order="<", planar=False, tile=None, orientation=1, size=(50, 37), **tags):
    """Noise, uncompressed, in strips of 16 rows or in tiles."""
    random = np.random.default_rng(9)
    width, height = size
    block_width, block_height = tile or (width, 16)
    columns, rows = -(-width // block_width), -(-height // block_height)
    across = 1 if planar else samples
    blocks = [random.bytes((block_width * across * bits + 7) // 8 * (block_height if tile else min(block_height, height - i // columns * 16)))
              for _ in range(samples if planar else 1) for i in range(columns * rows)]
    offsets = [8 + sum(map(len, blocks[:i])) for i in range(len(blocks))]
    entries = {256: ("I", [width]), 257: ("I", [height]), 258: ("H", [bits] * samples), 259: ("H", [1]), 262: ("H", [photometric]),
               274: ("H", [orientation]), 277: ("H", [samples]), 284: ("H", [2 if planar else 1])}
    places, counts = ("I", offsets), ("I", list(map(len, blocks)))
    entries |= {322: ("I", [block_width]), 323: ("I", [block_height]), 324: places, 325: counts} if tile else {
        273: places, 278: ("I", [block_height]), 279: counts}
    entries |= {338: ("H", list(extras))} if extras else {}
    entries |= {320: ("H", random.integers(0, 65536, 3 * 2**bits).tolist())} if photometric == 3 else {}
    entries |= {int(tag[1:]): ("I", [value]) for tag, value in tags.items()}
    body = b"".join(blocks)
    directory = 8 + len(body)
    behind, listed = b"", b""
    for tag, (kind, values) in sorted(entries.items()):
        content = struct.pack(f"{order}{len(values)}{kind}", *values)
        if len(content) > 4:
            place = directory + 2 + 12 * len(entries) + 4 + len(behind)
            behind += content
            content = struct.pack(order + "I", place)
        listed += struct.pack(order + "HHI", tag, 3 if kind == "H" else 4, len(values)) + content.ljust(4, b"\0")
    begin = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", directory)
    return begin + body + struct.pack(order + "H", len(entries)) + listed + bytes(4) + behind


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("tile", [None, (32, 16)])
@pytest.mark.parametrize("photometric, bits, samples, extras", [
    (0, 1, 1, ()), (1, 1, 1, ()), (0, 2, 1, ()), (1, 2, 1, ()), (0, 4, 1, ()), (1, 4, 1, ()), (0, 8, 1, ()), (1, 8, 1, ()), (1, 8, 2, (2,)),
    (2, 8, 3, ()), (2, 16, 3, ()), (2, 8, 4, (0,)), (2, 8, 4, (1,)), (2, 8, 4, (2,)), (2, 8, 5, (2, 0)), (2, 16, 4, (1,)), (2, 16, 4, (2,)),
    (3, 1, 1, ()), (3, 2, 1, ()), (3, 4, 1, ()), (3, 8, 1, ()), (3, 8, 2, (2,)), (5, 8, 4, ()), (5, 8, 5, (0,)), (5, 16, 4, ())])
def test_tiff_of_every_kind_decodes_like_pillow(tmp_path, photometric, bits, samples, extras, tile, order):
    (tmp_path / "a").write_bytes(tiff_file(photometric, bits, samples, extras, order, tile=tile))
    assert_decodes_like_pillow(tmp_path / "a")


@pytest.mark.parametrize("tile", [None, (32, 16)])
@pytest.mark.parametrize("photometric, samples, extras", [(2, 3, ()), (2, 4, (2,)), (5, 4, ())])
def test_tiff_of_separate_planes_decodes_like_pillow(tmp_path, photometric, samples, extras, tile):
    (tmp_path / "a").write_bytes(tiff_file(photometric, 8, samples, extras, planar=True, tile=tile))
    assert_decodes_like_pillow(tmp_path / "a")


def test_tiff_orientation_is_always_applied_like_pillow(tmp_path):
    for orientation in range(1, 9):
        (tmp_path / "a").write_bytes(tiff_file(2, 8, 3, orientation=orientation))
        assert_decodes_like_pillow(tmp_path / "a", orientation)


@pytest.mark.parametrize("order", ["<", ">"])
def test_16_bit_grey_tiff_keeps_its_upper_8_bits(tmp_path, order):
    (tmp_path / "a").write_bytes(tiff_file(1, 16, 1, order=order))
    levels = np.asarray(Image.open(tmp_path / "a"))
    assert levels.max() > 60000
    assert np.array_equal(dump(np.uint8, "decode", tmp_path / "a").reshape(*levels.shape, 3)[..., 1], levels >> 8)


@pytest.mark.parametrize("what, file", [
    ("1 x 32 bits", tiff_file(1, 32, 1)), ("sample format 3", tiff_file(1, 16, 1, t339=3)), ("interpretation 8", tiff_file(8, 8, 3)),
    ("7 x 8 bits", tiff_file(2, 8, 7, (0,) * 4)),
    ("3 x 8 bits", tiff_file(2, 8, 3, (1, 1, 1))),  # three sample formats, which a flipped bit turned into extra samples
    ("compression 6", tiff_file(2, 8, 3, t259=6)), ("compression 9999", tiff_file(2, 8, 3, t259=9999))])
def test_unsupported_kinds_of_tiff_are_rejected_by_name(tmp_path, what, file):
    (tmp_path / "a").write_bytes(file)
    text = refusal(tmp_path / "a")
    assert "is a TIFF file of an unsupported kind: " in text and what in text


def with_bytes(file, at, content):
    return file[:at] + content + file[at + len(content):]


def saved(form, mode="RGB", **options):
    file = io.BytesIO()
    photo(3, mode, (61, 47)).save(file, form, **options)
    return file.getvalue()


FRAMES = {"save_all": True, "append_images": [photo(4, "RGBA", (61, 47))]}
FLIPPED = {
    "JPEG": saved("JPEG"), "JPEG, 4:4:4": saved("JPEG", subsampling=0), "JPEG, grey": saved("JPEG", "L"), "JPEG, CMYK": saved("JPEG", "CMYK"),
    "JPEG, progressive": saved("JPEG", progressive=True), "JPEG, restarts": saved("JPEG", restart_marker_rows=1),
    "PNG": saved("PNG"), "PNG, palette": saved("PNG", "P"), "PNG, 1 bit": saved("PNG", "1"),
    "WebP": saved("WEBP"), "WebP, lossless": saved("WEBP", lossless=True), "WebP, alpha": saved("WEBP", "RGBA"),
    "WebP, animated": saved("WEBP", "RGBA", **FRAMES),
    "GIF": saved("GIF", "P"), "GIF, interlaced": saved("GIF", "P", interlace=1), "GIF, transparent": saved("GIF", "P", transparency=3),
    "BMP": saved("BMP"), "BMP, palette": saved("BMP", "P"), "BMP, 1 bit": saved("BMP", "1"), "BMP, 16 bits": bmp_file(16, 40),
    "BMP, masks": bmp_file(32, 124, masks=(0xFF0000, 0xFF00, 0xFF, 0)),
    "TIFF": saved("TIFF"), "TIFF, fax": saved("TIFF", "1", compression="group4"), "TIFF, LZW": saved("TIFF", compression="tiff_lzw"),
    "AVIF": saved("AVIF")}


def pillows_pixels(path):
    try:
        return np.asarray(Image.open(path).convert("RGB")).ravel()
    except Exception:
        return None


@pytest.mark.parametrize("count", [3, pytest.param(80, marks=pytest.mark.long)])
def test_flipped_bits_give_pillows_pixels_or_an_error(tmp_path, count):
    """A third of the flips are in the first 200 bytes. Pillow does not refuse all that is damaged, but never more than rollcall."""
    path = tmp_path / "flipped"
    for kind, file in FLIPPED.items():
        random = np.random.default_rng([count, *kind.encode()])
        for n in range(count):
            at, bit = int(random.integers(len(file) if n % 3 else 200)), int(random.integers(8))
            path.write_bytes(with_bytes(file, at, bytes([file[at] ^ 1 << bit])))
            done = run("decode", path)
            assert done.returncode in (0, 65), (kind, at, bit, done.stderr)
            if done.returncode == 0:
                assert np.array_equal(np.frombuffer(done.stdout, np.uint8), pillows_pixels(path)), (kind, at, bit)


def png_with_a_wrong_checksum():
    file = saved("PNG", "P", transparency=bytes(256))
    at = file.index(b"tRNS")
    return with_bytes(file, at + 4, bytes([file[at + 4] ^ 1]))


# Each was read before with other pixels than Pillow's, or with pixels that Pillow does not give.
DAMAGED = {
    "CRC error": png_with_a_wrong_checksum(),
    "is not an image in a supported format": with_bytes(saved("GIF", "P"), 4, b"5"),
    "is a damaged GIF file": gif_with_a_code_that_no_table_has(),
    "is a damaged GIF file (Image is defective": with_bytes(gif_with_a_code_that_no_table_has(), 18, bytes(4)),  # a frame of 0 x 0
    "is a BMP file of an unsupported kind": bmp_file(8, 44),
    "is a BMP file of an unsupported kind: ": with_bytes(saved("BMP", "P"), 46, struct.pack("<I", 65792)),
    "with an unusual pixel format": bmp_file(16, 40, masks=(0xF800, 0x7C0, 0x1F, 0)),
    "1 is missing": tiff_file(2, 8, 3, size=(50, 16), t257=37),
    "photometric interpretation 0": tiff_file(0, 8, 3, (0, 0)),
    "Bad code word": with_bytes(saved("TIFF", "1", compression="group4"), 100, b"\x5a" * 100),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damage_that_would_give_other_pixels_is_an_error(tmp_path, what):
    (tmp_path / "a").write_bytes(DAMAGED[what])
    assert what in refusal(tmp_path / "a")


def huge_files(folder):
    """Files whose headers claim more pixels than fit into any memory, or tiles that large."""
    yield "60000 x 60000", tiff_file(2, 8, 3).replace(struct.pack("<HHII", 256, 4, 1, 50), struct.pack("<HHII", 256, 4, 1, 60000)).replace(
        struct.pack("<HHII", 257, 4, 1, 37), struct.pack("<HHII", 257, 4, 1, 60000))
    yield "65536 x 65536", tiff_file(2, 8, 3, tile=(32, 16), t322=65536, t323=65536)
    yield "65535 x 65535", with_bytes(gif(folder), 6, b"\xff" * 4)
    yield "50000 x 50000", with_bytes(bmp_file(24, 40), 18, struct.pack("<ii", 50000, 50000))
    photo(1, "RGBA", (20, 20)).save(folder / "a", "WEBP", save_all=True, append_images=[photo(2, "RGBA", (20, 20))])
    yield "16384 x 16384", with_bytes((folder / "a").read_bytes(), 24, b"\xff\x3f\0" * 2)
    photo(1, "RGB", (20, 20)).save(folder / "a", "AVIF")
    file = (folder / "a").read_bytes()
    yield "is a damaged AVIF file", with_bytes(file, file.index(b"ispe") + 8, struct.pack(">II", 60000, 60000))


def gif(folder):
    photo(1, "P", (20, 20)).save(folder / "a", "GIF")
    return (folder / "a").read_bytes()


def test_huge_sizes_are_rejected_by_the_header(tmp_path):
    for what, file in huge_files(tmp_path):
        (tmp_path / "huge").write_bytes(file)
        assert what in refusal(tmp_path / "huge")


@pytest.mark.parametrize("form", ["WEBP", "GIF", "BMP", "AVIF", "TIFF"])
def test_truncated_files_give_one_error_line(tmp_path, form):
    photo(1, "P" if form == "GIF" else "RGB", (40, 30)).save(tmp_path / "whole", form)
    file = (tmp_path / "whole").read_bytes()
    for part in (0.2, 0.5, 0.9):
        (tmp_path / "cut").write_bytes(file[:int(len(file) * part)])
        text = refusal(tmp_path / "cut")
        assert text.startswith("rollcall: --data: is a damaged ") and text.count("\n") <= 1, text


def test_packed_images_keep_their_bytes_and_resized_ones_their_orientation(tmp_path):
    """A TIFF is upright when decoded; for the other formats the orientation is stored with the smaller JPEG."""
    (tmp_path / "tree/a").mkdir(parents=True)
    forms = ("AVIF", "BMP", "GIF", "PNG", "TIFF", "WEBP")
    for form in forms:
        exif = Image.Exif()
        exif[ORIENTATION] = 6  # which saving as AVIF takes away
        photo(7, size=(60, 40)).save(tmp_path / f"tree/a/{form.lower()}.jpg", form, **({} if form in ("BMP", "GIF") else {"exif": exif}))
    for options, shrunk in ([], False), (["--resize=16"], True):
        subprocess.run([BUILD / "trainer/rollcall-pack", *options, tmp_path / "tree", tmp_path / f"{shrunk}.h5"], check=True)
        with h5py.File(tmp_path / f"{shrunk}.h5") as packed:
            assert packed["orientation"][:].tolist() == [6, 1, 1, 6, 1, 6]
            assert packed["width"][:].tolist() == [side * 24 // 60 if shrunk else side for side in (60, 60, 60, 60, 40, 60)]
            for i, form in enumerate(forms):
                stored = packed["data"][packed["offset"][i]:packed["offset"][i] + packed["length"][i]].tobytes()
                assert (stored == (tmp_path / f"tree/a/{form.lower()}.jpg").read_bytes()) == (not shrunk)
                if shrunk:
                    assert ImageOps.exif_transpose(Image.open(io.BytesIO(stored))).size == ((24, 16) if form in ("BMP", "GIF") else (16, 24))
