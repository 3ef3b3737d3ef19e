"""What the paper's exploring policies share: phases, tuning, commitment."""
