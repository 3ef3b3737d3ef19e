"""Reports: a run's charts as SVG, PNG or PDF, and as one self-contained HTML page."""
