#!/usr/bin/env bash
# Every check of the project. All run, whatever fails before; pytest comes last, so that its summary does too.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/${VENV:-.venv}/bin:$PATH"
# In the tests of workflows, Temporal's sandbox imports them anew for every run: without bytecode on disk, each compiles
# them again.
unset PYTHONDONTWRITEBYTECODE

failed=()
check() {
    printf '\n== %s\n' "$*"
    "$@" || failed+=("$1 ${2:-}")
}

# What is type-checked of what exists: the product's packages, and the programs beside them.
packages=()
for package in contracts workflows activities temporal telemetry worker api client mcp_server ui server cli sandbox bench scripts deploy; do
    if [ -d "$package" ]; then packages+=("$package"); fi
done

check ruff check .
check ruff format --check .
check mypy --explicit-package-bases "${packages[@]}"
check lint-imports
if [ ${#failed[@]} -gt 0 ]; then
    printf '\nFAILED so far: %s\n' "$(IFS=,; echo "${failed[*]}")"
fi
# Three files at once: most of their time is waiting. A file stays whole, for what its tests share.
pytest_whole() {
    python -m pytest -n 3 --dist loadfile --no-loadscope-reorder "$@"
}

# Thousands of tests start servers, kill them and wait for lists that lag, on a machine that others may load: a few
# that fail, or those of a few files that stand on one stack, are tried once more, alone. What passes only then is
# named, to be looked into.
few() {
    [ "$(wc -l <"$1")" -le 5 ] || [ "$(cut -d: -f1 "$1" | sort -u | wc -l)" -le 3 ]
}

pytest_twice() {
    local first again status=0
    first=$(mktemp)
    again=$(mktemp)
    INSTANTSTART_FAILED_TESTS=$first pytest_whole || status=$?
    sort -u "$first" >"$again"
    if [ "$status" -eq 1 ] && [ -s "$again" ] && few "$again"; then
        printf '\n== once more, alone:\n'
        cat "$again"
        status=0
        python -m pytest "@$again" || status=$?
        if [ "$status" -eq 0 ]; then
            printf '\nUNSTEADY: failed once and passed alone:\n'
            cat "$again"
        fi
    fi
    rm -f "$first" "$again"
    return "$status"
}

if [ $# -gt 0 ]; then check pytest_whole "$@"; else check pytest_twice; fi
[ ${#failed[@]} -eq 0 ]
