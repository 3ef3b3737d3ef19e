"""Section 5.1's example: what the order of pairs within a batch is worth to ``sticky``."""
