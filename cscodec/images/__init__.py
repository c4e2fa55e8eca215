"""Files to arrays and back, with their metadata: the only importer of Pillow's openers."""

from cscodec.images.folders import Listing, find_pictures, list_folder
from cscodec.images.metadata import STRIPPABLE, parse_strip, stripped, upright
from cscodec.images.picture import Picture, luma
from cscodec.images.pillow import from_pillow
from cscodec.images.reading import PICTURE_SUFFIXES, read_picture, stream_bytes
from cscodec.images.writing import fitted, output_suffix, parse_colour, write_picture

__all__ = [
    "PICTURE_SUFFIXES",
    "STRIPPABLE",
    "Listing",
    "Picture",
    "find_pictures",
    "fitted",
    "from_pillow",
    "list_folder",
    "luma",
    "output_suffix",
    "parse_colour",
    "parse_strip",
    "read_picture",
    "stream_bytes",
    "stripped",
    "upright",
    "write_picture",
]
