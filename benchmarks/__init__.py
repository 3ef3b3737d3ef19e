"""Performance, as ratios measured in one run: against C, against ourselves, against peers."""
