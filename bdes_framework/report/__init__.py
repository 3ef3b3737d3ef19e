"""Reports: a run's charts as SVG or PNG, and as one self-contained HTML page."""
