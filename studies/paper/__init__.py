"""The paper's figures and table reproduced: what writes docs/paper.md."""
