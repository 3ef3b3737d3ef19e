"""Phases, tuning and commitment that the paper's exploring policies share."""
