"""The HTTP service of a live learner: ``bdes live serve``."""
