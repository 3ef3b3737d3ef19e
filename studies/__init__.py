"""Studies: measurements that write pages of the documentation."""
