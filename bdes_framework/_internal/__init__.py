"""Helpers without a subject of their own: text, arrays, files, seeds. Not public."""
