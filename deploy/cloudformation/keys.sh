#!/usr/bin/env bash
# Keeps the secrets of the host in Secrets Manager, and takes from there what is not here. Safe to repeat; to be run
# after each change of a key, as each start of the host does.
# SECRET: ARN of the secret.
set -euo pipefail
cd "$(dirname "$0")/../.."
AWS_DEFAULT_REGION=$(cut -d : -f 4 <<<"${SECRET:?}")
export AWS_DEFAULT_REGION
secrets=deploy/compose/secrets

umask 077
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/kept"
versions=$(aws secretsmanager list-secret-version-ids --secret-id "$SECRET" --query 'length(Versions)' --output text)
if [ "$versions" != 0 ]; then
    aws secretsmanager get-secret-value --secret-id "$SECRET" --query SecretString --output text |
        base64 -d >"$work/kept.tar.gz"
    tar -xzf "$work/kept.tar.gz" -C "$work/kept"
    mkdir -p "$secrets"
    # What is here counts: where a key was replaced, the former one must not come back in its place.
    tar -xzf "$work/kept.tar.gz" --skip-old-files -C "$secrets"
fi
python3 deploy/compose/prepare.py
# Kept before anything is encrypted with them.
if ! diff --recursive --brief "$work/kept" "$secrets" >/dev/null; then
    tar -czf - -C "$secrets" . | base64 -w0 >"$work/packed"
    aws secretsmanager put-secret-value --secret-id "$SECRET" --secret-string "file://$work/packed" >/dev/null
fi
