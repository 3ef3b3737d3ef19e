"""The policy `posterior` compared with the paper's: what writes docs/posterior.md."""
