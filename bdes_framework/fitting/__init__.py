"""Fitting: estimates of r, b and lam from a log of pulls."""
