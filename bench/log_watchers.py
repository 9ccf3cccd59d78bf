"""``python -m bench.log_watchers URL TOKEN COUNT LINES``: so many watchers of one stream of lines, each until it has
had as many; prints what each measured, as JSON. A process of its own, so that watching does not slow down what is
watched.

Each line of the log ends in the time at which it was written.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time

import httpx

_WRITTEN = re.compile(rb"line \d+ of the benchmark, written at (\d+\.\d+)")


async def _watch(http: httpx.AsyncClient, path: str, lines: int, headers: dict[str, str]) -> dict[str, object]:
    got, lags, first, rest = 0, [], 0.0, b""
    async with http.stream("GET", path, headers=headers, timeout=120) as response:
        print("ready", flush=True)
        async for piece in response.aiter_raw():
            now = time.time()
            *whole, rest = (rest + piece).split(b"\n")
            found = _WRITTEN.findall(b"\n".join(whole))
            if found:
                first = first or now
                got += len(found)
                lags += [now - float(found[0]), now - float(found[-1])]
            if got >= lines:
                break
    return {"lines": got, "seconds": time.time() - first, "lags": lags}


async def main(url: str, token: str, count: int, lines: int) -> None:
    limits = httpx.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(limits=limits, trust_env=False) as http:
        found = await asyncio.gather(*(_watch(http, url, lines, headers) for _ in range(count)))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
