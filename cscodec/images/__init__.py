"""Files to arrays and back, with their metadata: the only importer of Pillow's openers."""

from cscodec.images.folders import Listing, find_pictures, list_folder
from cscodec.images.picture import Picture, luma
from cscodec.images.pillow import from_pillow, upright
from cscodec.images.reading import PICTURE_SUFFIXES, read_picture
from cscodec.images.writing import output_suffix, write_picture

__all__ = [
    "PICTURE_SUFFIXES",
    "Listing",
    "Picture",
    "find_pictures",
    "from_pillow",
    "list_folder",
    "luma",
    "output_suffix",
    "read_picture",
    "upright",
    "write_picture",
]
