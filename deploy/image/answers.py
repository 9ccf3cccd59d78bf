"""``python answers.py URL``: whether URL is answered with success. The health check of a container without curl."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

PATIENCE = 5.0


def main(url: str) -> int:
    """0 if it is; else 1, and why on stdout, where ``docker inspect`` shows it."""
    # Whatever proxy there is leads away from here.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=PATIENCE):
            return 0
    except (urllib.error.URLError, OSError) as error:
        print(f"{url}: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
