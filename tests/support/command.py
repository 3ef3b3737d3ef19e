"""The ``bdes`` command, run as people run it: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path


def bdes(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``bdes`` with these arguments; output is captured, not checked."""
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1"}
    command = [sys.executable, "-c", "from bdes_framework.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)
