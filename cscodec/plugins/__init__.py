"""Readers and writers for other imaging libraries."""
