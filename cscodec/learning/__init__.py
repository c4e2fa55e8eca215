"""Models from image folders."""
