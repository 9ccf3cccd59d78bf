"""The add-on of HyperPod task governance: Kueue, with definitions that accept any spec.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance-setup.html ; names
as in https://kueue.sigs.k8s.io/docs/installation/
"""

from __future__ import annotations

from functools import partial

from . import manifests
from .addonparts import Wanted, controller, service, webhooks
from .resources import Json

NAMESPACE = "kueue-system"
MANAGER = "kueue-controller-manager"
GROUP = "kueue.x-k8s.io"


def objects(wanted: Wanted) -> list[Json]:
    definition = partial(manifests.open_definition, GROUP, versions=("v1beta1", "v1beta2"))
    rules = {
        "clusterqueue": (GROUP, "clusterqueues"),
        "resourceflavor": (GROUP, "resourceflavors"),
        "workload": (GROUP, "workloads"),
        "job": ("batch", "jobs"),
    }
    mutating = {f"m{name}.kb.io": judged for name, judged in rules.items()}
    validating = {f"v{name}.kb.io": judged for name, judged in rules.items()}
    hook = partial(webhooks, namespace=NAMESPACE, service_name="kueue-webhook-service")
    return [
        *controller(NAMESPACE, MANAGER, "amazon/kueue", wanted.version),
        definition("ClusterQueue", "clusterqueues", namespaced=False, short_names=("cq",)),
        definition("LocalQueue", "localqueues", short_names=("lq", "queue", "queues")),
        definition("ResourceFlavor", "resourceflavors", namespaced=False, short_names=("flavor", "flavors", "rf")),
        definition("Workload", "workloads", short_names=("wl",)),
        _plain(definition("WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False)),
        definition("AdmissionCheck", "admissionchecks", namespaced=False),
        definition("Topology", "topologies", namespaced=False),
        service(NAMESPACE, "kueue-webhook-service", {"app": MANAGER}),
        hook("Mutating", "kueue-mutating-webhook-configuration", rules=mutating),
        hook("Validating", "kueue-validating-webhook-configuration", rules=validating),
    ]


def _plain(definition: Json) -> Json:
    """A kind whose value is at the top, without spec and status."""
    for version in definition["spec"]["versions"]:
        version["schema"] = {
            "openAPIV3Schema": {
                "type": "object",
                "required": ["value"],
                "properties": {"value": {"type": "integer"}, "description": {"type": "string"}},
            }
        }
        del version["subresources"]
    return definition
