"""Quantised measurements to bytes and back; integers only."""
