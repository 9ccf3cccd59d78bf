#!/usr/bin/env bash
# Makes the locks anew from pyproject.toml. Needs uv; nothing else does.
set -euo pipefail
cd "$(dirname "$0")/.."
lock() { uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --custom-compile-command requirements/lock.sh pyproject.toml "$@"; }
lock -o requirements/runtime.txt
lock -c requirements/runtime.txt --extra local -o requirements/local.txt
lock -c requirements/local.txt --extra local --group dev -o requirements/dev.txt
