"""What crowd-posterior loses on many users, and what it gains beside other policies."""
