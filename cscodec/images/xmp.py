"""XMP, changed where it says something about the picture's storage that is not so any more.

Numbers are changed in place. Whole properties are removed through an XML parser, and only where
there are such: all other XMP stays as it is, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from xml.dom import minidom
from xml.parsers.expat import ExpatError

_TIFF, _EXIF = "http://ns.adobe.com/tiff/1.0/", "http://ns.adobe.com/exif/1.0/"
_DECLARATIONS = "http://www.w3.org/2000/xmlns/"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
#: Properties, by namespace and how their names begin, that speak of other pictures in the source,
#: which do not travel: gain maps, depth maps, videos, thumbnails, and XMP that is continued there.
_DANGLING = (
    ("http://ns.adobe.com/hdr-gain-map/1.0/", ""),
    ("http://ns.adobe.com/xmp/note/", "HasExtendedXMP"),
    ("http://ns.adobe.com/xap/1.0/", "Thumbnails"),
    ("http://ns.apple.com/HDRGainMap/1.0/", ""),
    ("http://ns.apple.com/pixeldatainfo/1.0/", ""),
    ("http://ns.google.com/photos/1.0/audio/", ""),
    ("http://ns.google.com/photos/1.0/camera/", "MicroVideo"),
    ("http://ns.google.com/photos/1.0/camera/", "MotionPhoto"),
    ("http://ns.google.com/photos/1.0/container/", ""),
    ("http://ns.google.com/photos/1.0/depthmap/", ""),
    ("http://ns.google.com/photos/1.0/image/", ""),
    ("http://ns.google.com/photos/dd/1.0/device/", ""),
)
_MOST_BYTES = 1 << 22
_POSITION = ((_EXIF, "GPS"),)


def as_utf8(xmp: bytes) -> bytes:
    """Return XMP of UTF-16 as UTF-8; other XMP as it is."""
    if not xmp.startswith(_UTF_16_MARKS):
        return xmp
    try:
        return xmp.decode("utf-16").encode()
    except UnicodeDecodeError:
        return xmp


def take_orientation(xmp: bytes) -> tuple[int, bytes]:
    """Return the orientation, 1..8, or 0 if there is none, and the XMP with it set to 1."""
    if b"Orientation" not in xmp:
        return 0, xmp
    found = _number(xmp, _TIFF, "tiff", "Orientation").search(xmp)
    if found is None:
        return 0, xmp
    value = int(found[2][:3])
    return (value if 1 <= value <= 8 else 1), _with_number(xmp, _TIFF, "tiff", "Orientation", 1)


def with_size(xmp: bytes, width: int, height: int) -> bytes:
    """Change width and height where they are stored."""
    for namespace, prefix, name, value in (
        (_TIFF, "tiff", "ImageWidth", width),
        (_TIFF, "tiff", "ImageLength", height),
        (_EXIF, "exif", "PixelXDimension", width),
        (_EXIF, "exif", "PixelYDimension", height),
    ):
        if name.encode() in xmp:
            xmp = _with_number(xmp, namespace, prefix, name, value)
    return xmp


def without_dangling(xmp: bytes) -> bytes | None:
    """Remove what speaks of parts of the source that do not travel; None if that fails."""
    return _without(xmp, _DANGLING)


def without_position(xmp: bytes) -> bytes | None:
    """Remove the GPS position; None if that fails."""
    if _may_hide(xmp):
        return None
    return _without(xmp, _POSITION) if b"GPS" in xmp else xmp


def _may_hide(xmp: bytes) -> bool:
    """Whether names in it may be written otherwise: in UTF-16 or 32, by entities or references."""
    return not _is_plain(xmp) or re.search(rb"xmlns[^>]{0,200}&#", xmp) is not None


def _is_plain(xmp: bytes) -> bool:
    """Whether it has no DOCTYPE, as XMP has none, and no UTF-16 to hide one in."""
    return b"<!DOCTYPE" not in xmp and b"\0" not in xmp.rstrip(b"\0")


def _number(xmp: bytes, namespace: str, prefix: str, name: str) -> re.Pattern[bytes]:
    """Find a numeric property, an attribute or an element, whatever prefix its namespace has."""
    # All repetitions have an end, as hostile XMP would else take a time of its length squared.
    uri = re.escape(namespace).encode()
    declared = re.findall(rb"xmlns:([\w.-]{1,40})\s{0,9}=\s{0,9}[\"']" + uri, xmp)
    prefixes = b"|".join(map(re.escape, sorted({prefix.encode(), *declared[:8]})))
    gap = rb"\s{0,99}"
    value = rb"%s(?:=%s[\"']%s|(?:\s[^<>]{0,99})?>%s)" % (gap, gap, gap, gap)
    return re.compile(rb"(\b(?:%s):%s%s)(\d{1,20})" % (prefixes, name.encode(), value))


def _with_number(xmp: bytes, namespace: str, prefix: str, name: str, value: int) -> bytes:
    pattern = _number(xmp, namespace, prefix, name)
    return pattern.sub(lambda found: found[1] + str(value).encode(), xmp)


def _without(xmp: bytes, properties: tuple[tuple[str, str], ...]) -> bytes | None:
    if not any(namespace.encode() in xmp for namespace, _ in properties):
        return xmp
    # Entities could grow without bound; and parsed, it is 100 times as large.
    if not _is_plain(xmp) or len(xmp) > _MOST_BYTES:
        return None

    def is_unwanted(node: Any) -> bool:
        if node.namespaceURI == _DECLARATIONS:
            return (node.value, "") in properties
        name = node.localName or ""
        return any(node.namespaceURI == uri and name.startswith(n) for uri, n in properties)

    try:
        document = minidom.parseString(xmp.rstrip(b"\0"))
        if not _prune(document, is_unwanted):
            return xmp
        return "".join(node.toxml() for node in document.childNodes).encode()
    except (ExpatError, ValueError, RecursionError):
        return None


def _prune(node: Any, is_unwanted: Callable[[Any], bool]) -> bool:
    """Remove unwanted elements and attributes below a node; return whether there were any."""
    removed = False
    for attribute in list((node.attributes or {}).values()):
        if is_unwanted(attribute):
            node.removeAttributeNode(attribute)
            removed = True
    kept = []
    for child in node.childNodes:
        if child.nodeType == child.ELEMENT_NODE and is_unwanted(child):
            removed = True
        else:
            removed |= _prune(child, is_unwanted)
            kept.append(child)
    if len(kept) < len(node.childNodes):
        node.childNodes[:] = kept  # at once: removeChild looks each up
    return removed
