"""``tether.py PARENT ARGV…``: become ARGV, and be killed by the kernel when the parent dies.

What a killed worker leaves running would go on beside the attempt that another worker makes. A program of its own and
not a ``preexec_fn``, because Python code between fork and exec can deadlock. Only Linux has the call; elsewhere ARGV
runs untethered.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, argv = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before the tether held
            signal.raise_signal(signal.SIGKILL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"{argv[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
