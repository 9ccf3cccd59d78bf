#!/usr/bin/env bash
# Brings the host of management-host.yaml to what its bundle and its stack say. Safe to repeat.
# IMAGE: the platform's image by digest. SECRET: ARN of the secret. REGIONS, DEFAULT_REGION: what is operated.
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${IMAGE:?}" "${SECRET:?}" "${REGIONS:?}" "${DEFAULT_REGION:?}"

install -D -m 755 bin/docker-compose /usr/local/lib/docker/cli-plugins/docker-compose

# Other lines of it are somebody's own.
{
    grep -Ev '^INSTANTSTART_(IMAGE|REGIONS|DEFAULT_REGION)=' .env 2>/dev/null || true
    echo "INSTANTSTART_IMAGE=$IMAGE"
    echo "INSTANTSTART_REGIONS=$REGIONS"
    echo "INSTANTSTART_DEFAULT_REGION=$DEFAULT_REGION"
} >.env.new
mv .env.new .env

bash deploy/cloudformation/keys.sh

registry=${IMAGE%%/*}
aws ecr get-login-password | docker login --username AWS --password-stdin "$registry" >/dev/null
docker compose up --detach --no-build --remove-orphans
