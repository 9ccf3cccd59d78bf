#!/bin/bash
# Runs once on every HyperPod node before it joins the cluster. HyperPod's own agents do all that EKS needs; this script
# only leaves a trace, and is the place for a site's additions. Its output goes to CloudWatch Logs,
# /aws/sagemaker/Clusters/<name>/<id>, stream LifecycleConfig/<group>/<instance>.

set -u

log() {
    echo "$(date --utc +%Y-%m-%dT%H:%M:%SZ) instantstart: $*"
}

log "node $(hostname) starts, kernel $(uname -r)"
log "root volume: $(df --output=avail --human-readable / | tail -n 1 | tr -d ' ') free"
log "done"
exit 0
