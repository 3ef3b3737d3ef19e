"""Planning: a plan beside simpler ones, what it earns more than today, and checks against a log."""
