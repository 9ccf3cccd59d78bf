"""The kinds this API server serves: the built-in ones from a table, custom ones from their CustomResourceDefinition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

_ALL_CATEGORY = {
    *("Pod", "Service", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"),
    *("ReplicationController", "HorizontalPodAutoscaler"),
}

# group/version -> "plural Kind short,names subresources"; a leading ~ marks a cluster-scoped kind, - stands for none.
# https://kubernetes.io/docs/reference/kubernetes-api/
_BUILT_IN = {
    "v1": """
        ~namespaces Namespace ns status,finalize
        ~nodes Node no status
        ~persistentvolumes PersistentVolume pv status
        pods Pod po status,log,eviction,binding,exec,attach,portforward,proxy,ephemeralcontainers
        services Service svc status,proxy
        configmaps ConfigMap cm -
        secrets Secret - -
        serviceaccounts ServiceAccount sa token
        persistentvolumeclaims PersistentVolumeClaim pvc status
        events Event ev -
        endpoints Endpoints ep -
        resourcequotas ResourceQuota quota status
        limitranges LimitRange limits -
        podtemplates PodTemplate - -
        replicationcontrollers ReplicationController rc status,scale""",
    "apps/v1": """
        deployments Deployment deploy status,scale
        replicasets ReplicaSet rs status,scale
        statefulsets StatefulSet sts status,scale
        daemonsets DaemonSet ds status
        controllerrevisions ControllerRevision - -""",
    "batch/v1": """
        jobs Job - status
        cronjobs CronJob cj status""",
    "autoscaling/v2": "horizontalpodautoscalers HorizontalPodAutoscaler hpa status",
    "policy/v1": "poddisruptionbudgets PodDisruptionBudget pdb status",
    "rbac.authorization.k8s.io/v1": """
        roles Role - -
        rolebindings RoleBinding - -
        ~clusterroles ClusterRole - -
        ~clusterrolebindings ClusterRoleBinding - -""",
    "storage.k8s.io/v1": """
        ~storageclasses StorageClass sc -
        ~csidrivers CSIDriver - -
        ~csinodes CSINode - -
        ~volumeattachments VolumeAttachment - status
        csistoragecapacities CSIStorageCapacity - -""",
    "networking.k8s.io/v1": """
        ingresses Ingress ing status
        networkpolicies NetworkPolicy netpol -
        ~ingressclasses IngressClass - -""",
    "scheduling.k8s.io/v1": "~priorityclasses PriorityClass pc -",
    "node.k8s.io/v1": "~runtimeclasses RuntimeClass - -",
    "coordination.k8s.io/v1": "leases Lease - -",
    "discovery.k8s.io/v1": "endpointslices EndpointSlice - -",
    "events.k8s.io/v1": "events Event ev -",
    "certificates.k8s.io/v1": "~certificatesigningrequests CertificateSigningRequest csr status,approval",
    "apiextensions.k8s.io/v1": "~customresourcedefinitions CustomResourceDefinition crd,crds status",
    "apiregistration.k8s.io/v1": "~apiservices APIService - status",
    "admissionregistration.k8s.io/v1": """
        ~mutatingwebhookconfigurations MutatingWebhookConfiguration - -
        ~validatingwebhookconfigurations ValidatingWebhookConfiguration - -
        ~validatingadmissionpolicies ValidatingAdmissionPolicy - status
        ~validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding - -""",
}

# What cannot be changed once written: the validation packages of each kind (pkg/apis/*/validation).
IMMUTABLE_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("batch", "jobs"): ("spec.template", "spec.selector", "spec.completionMode", "spec.completions"),
    ("apps", "deployments"): ("spec.selector",),
    ("apps", "replicasets"): ("spec.selector",),
    ("apps", "daemonsets"): ("spec.selector",),
    ("apps", "statefulsets"): (
        "spec.selector",
        "spec.serviceName",
        "spec.volumeClaimTemplates",
        "spec.podManagementPolicy",
    ),
    ("", "services"): ("spec.clusterIP",),
    ("", "persistentvolumeclaims"): (
        "spec.accessModes",
        "spec.storageClassName",
        "spec.selector",
        "spec.volumeMode",
        "spec.volumeName",
    ),
    ("", "persistentvolumes"): ("spec.csi",),
    ("", "secrets"): ("type",),
    ("", "pods"): ("spec.nodeName", "spec.volumes", "spec.restartPolicy", "spec.serviceAccountName"),
    ("storage.k8s.io", "storageclasses"): ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    ("storage.k8s.io", "csidrivers"): ("spec.attachRequired",),
    ("rbac.authorization.k8s.io", "rolebindings"): ("roleRef",),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): ("roleRef",),
    ("scheduling.k8s.io", "priorityclasses"): ("value", "preemptionPolicy"),
    ("apiextensions.k8s.io", "customresourcedefinitions"): ("spec.scope", "spec.names.kind", "spec.group"),
}

_EVENT_FIELDS = (
    *("involvedObject.kind", "involvedObject.name", "involvedObject.namespace", "involvedObject.uid"),
    *("involvedObject.fieldPath", "involvedObject.apiVersion", "involvedObject.resourceVersion"),
    *("reason", "type", "source", "reportingComponent"),
)
# https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/
FIELD_SELECTORS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): (
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork"),
        *("status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"),
    ),
    ("", "events"): _EVENT_FIELDS,
    ("events.k8s.io", "events"): (
        *_EVENT_FIELDS,
        "regarding.kind",
        "regarding.name",
        "regarding.namespace",
        "regarding.uid",
        "reportingController",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
    ("", "services"): ("spec.clusterIP", "spec.type"),
    ("", "replicationcontrollers"): ("status.replicas",),
    ("apps", "replicasets"): ("status.replicas",),
    ("batch", "jobs"): ("status.successful",),
    ("certificates.k8s.io", "certificatesigningrequests"): ("spec.signerName",),
}

# Deletes answer with the object instead of a Status for these (ReturnDeletedObject in kube-apiserver's registries).
RETURNS_DELETED_OBJECT = {
    *("pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims", "podtemplates"),
    *("resourcequotas", "storageclasses", "csidrivers", "csinodes", "volumeattachments"),
}


@dataclass(frozen=True, eq=False)
class ResourceType:
    """One served resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    singular: str = ""
    list_kind: str = ""
    categories: tuple[str, ...] = ()
    schema: Json = field(default_factory=dict)
    schema_key: str = ""
    """Names the schema for the cache of validators: equal keys mean equal schemas."""
    definition: str = ""
    """The OpenAPI definition's name."""
    custom: bool = False
    columns: tuple[Json, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    scale_paths: Json = field(default_factory=dict)

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage_key(self) -> tuple[str, str]:
        """Where the objects are kept: both event APIs share one storage, as do all versions of a custom resource."""
        return ("", "events") if (self.group, self.plural) == ("events.k8s.io", "events") else (self.group, self.plural)

    @property
    def qualified(self) -> str:
        """The name used in messages: ``jobs.batch``, ``pods``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


def _names(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))


def built_in_types(definitions: dict[tuple[str, str, str], str]) -> dict[tuple[str, str, str], ResourceType]:
    """The built-in kinds by (group, version, plural). ``definitions``: (group, version, kind) to definition name."""
    types: dict[tuple[str, str, str], ResourceType] = {}
    for group_version, lines in _BUILT_IN.items():
        group, _, version = group_version.rpartition("/")
        for line in lines.strip().splitlines():
            plural, kind, short_names, subresources = line.split()
            namespaced = not plural.startswith("~")
            plural = plural.lstrip("~")
            definition = definitions.get((group, version, kind), "")
            types[group, version, plural] = ResourceType(
                group=group,
                version=version,
                plural=plural,
                kind=kind,
                namespaced=namespaced,
                short_names=_names(short_names),
                subresources=_names(subresources),
                singular=kind.lower(),
                list_kind=f"{kind}List",
                categories=("all",) if kind in _ALL_CATEGORY else (),
                schema={"$ref": f"#/$defs/{definition}"},
                schema_key=definition,
                definition=definition,
            )
    return types
