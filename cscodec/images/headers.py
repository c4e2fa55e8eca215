"""What picture files say in their headers and Pillow does not pass on.

The depth of the samples, which Pillow cuts to 8 bits silently, and the place of the EXIF
orientation, so that it can be reset without rewriting (and half losing) the rest of the EXIF.
"""

from __future__ import annotations

import re
import struct

from PIL import Image

_ORIENTATION_TAG = 0x0112
#: TIFF tags that describe the picture and not its storage, and so may travel as EXIF:
#: description, make, model, software, date, artist, copyright, the EXIF and the GPS directory.
_DESCRIPTIVE_TAGS = (0x010E, 0x010F, 0x0110, 0x0131, 0x0132, 0x013B, 0x8298, 0x8769, 0x8825)


def bits_per_sample(image: Image.Image, head: bytes) -> int:
    """Bits per sample as the file has them: Pillow cuts most 16-bit colour to 8 silently."""
    if image.format == "PNG":
        return head[24]
    if image.format == "TIFF":
        return int(max(getattr(image, "tag_v2", {}).get(258, (1,))))
    if image.format == "PPM" and head[:2] in (b"P2", b"P3", b"P5", b"P6"):
        fields = re.sub(rb"#[^\r\n]*", b"", head).split(None, 4)
        return int(fields[3]).bit_length()
    if image.format == "JPEG2000":
        # SIZ marker: its component depths begin 40 bytes after the two markers, 3 bytes each.
        start = head.index(b"\xff\x4f\xff\x51") + 4
        (components,) = struct.unpack_from(">H", head, start + 36)
        depths = head[start + 38 : start + 38 + 3 * components : 3]
        return max(depth & 0x7F for depth in depths) + 1
    if image.format == "AVIF":
        configuration = head.find(b"av1C")
        deep, twelve = (head[configuration + 6] & bit for bit in (0x40, 0x20))
        return (12 if twelve else 10) if configuration >= 0 and deep else 8
    return 8


def take_orientation(exif: bytes) -> tuple[int, bytes]:
    """Return the orientation (1..8) and the same EXIF with it set to 1, all else untouched."""
    start = 6 if exif.startswith(b"Exif\0\0") else 0
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[start : start + 4])
    try:
        if order is None:
            return 1, exif
        directory = start + struct.unpack_from(f"{order}I", exif, start + 4)[0]
        (num_entries,) = struct.unpack_from(f"{order}H", exif, directory)
        for entry in range(directory + 2, directory + 2 + 12 * num_entries, 12):
            tag, kind, count = struct.unpack_from(f"{order}HHI", exif, entry)
            if (tag, kind, count) == (_ORIENTATION_TAG, 3, 1):
                (orientation,) = struct.unpack_from(f"{order}H", exif, entry + 8)
                if not 2 <= orientation <= 8:
                    return 1, exif
                return orientation, exif[: entry + 8] + struct.pack(f"{order}H", 1) + exif[
                    entry + 10 :
                ]
    except struct.error:  # damaged EXIF travels as it came
        pass
    return 1, exif


def tiff_exif(image: Image.Image) -> bytes | None:
    found = image.getexif()
    kept = Image.Exif()
    for tag in _DESCRIPTIVE_TAGS:
        if tag in found:
            kept[tag] = found.get_ifd(tag) if tag in (0x8769, 0x8825) else found[tag]
    return kept.tobytes() if len(kept) else None
