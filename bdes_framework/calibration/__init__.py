"""Calibration: the evolution rate from a curve of click-through rates."""
