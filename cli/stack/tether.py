"""``tether.py SIGNAL PARENT ARGV…``: become ARGV, and get SIGNAL from the kernel when the parent dies.

A program of its own and not a ``preexec_fn``, because Python code between fork and exec can deadlock. Only Linux has
the call; elsewhere ARGV runs untethered.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    number, parent, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it died before the tether held
            signal.raise_signal(signal.SIGKILL)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
