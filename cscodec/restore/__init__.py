"""Planes from the quantised measurements of a file: its decoders."""
