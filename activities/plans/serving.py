"""What model servers need of a cluster: that what they refer to is there, and that there is room for them."""

from __future__ import annotations

import math
from typing import Any

from kubernetes import client

from activities.credentials.secrets import token_in
from activities.deployments import model_facts, objects
from activities.deployments.capacity import Room, in_words, room_for
from activities.deployments.manifests import default_mounts, deployment, services
from activities.features.foreign import CONTROLLERS
from activities.instance_types import EFA, NVIDIA, InstanceFacts, describe_types
from activities.kubernetes import listed, read_or_none
from activities.node_pools.objects import is_ours
from activities.nodes.sight import Raw, labels_of
from activities.plans.credentials import namespace_blockers
from activities.plans.room import room_checks, shortfall
from activities.plans.world import World
from activities.storage.volumes import claim_of
from contracts.cluster import ClusterRecord
from contracts.command_facts import LintFacts, NodeShape
from contracts.command_lint import HUB_ID
from contracts.command_report import findings_of
from contracts.commands import Severity, options_of
from contracts.deployment_parts import DEFAULT_CLAIM, StorageMount
from contracts.deployments import TOKEN_VARIABLE, DeploymentSpec
from contracts.features import Feature
from contracts.names import LABEL_DEPLOYMENT, credential_secret
from contracts.plans import Check
from contracts.problem import FieldError, ProblemCode
from contracts.storage import Claim, StorageType

GIB = 2**30
REQUESTED_BY = {NVIDIA: "/gpu_count", EFA: "/efa", "cpu": "/resources/cpu", "memory": "/resources/memory_gib"}
"""The fields that say what a replica requests."""
LEAST_STARTUP, MOST_STARTUP = 15, 240
"""Minutes."""
GIB_A_MINUTE = 6
"""What a replica surely loads, over a network of 100 MiB/s."""


class ServingLook:
    """What stands in the way of one specification, gathered while a plan is made."""

    def __init__(self, world: World, record: ClusterRecord, spec: DeploymentSpec) -> None:
        self.world, self.record, self.spec = world, record, spec
        self.command = spec.read
        self.checks: list[Check] = []
        self.warnings: list[str] = []
        self.blockers: list[FieldError] = []
        self.facts: dict[str, Any] = {}
        self.mounts: list[StorageMount] = []
        self.claims: dict[str, Claim] = {}
        self.services: list[str] = []
        """Those that lead to the deployment now."""

    def is_free(self, found: Raw) -> bool:
        """Whether a Deployment of the name may be changed; a blocker where not."""
        if is_ours(found, self.record.tag) and LABEL_DEPLOYMENT in labels_of(found):
            return True
        detail = f"a Deployment {self.spec.name} exists that is no deployment of {self.record.tag}"
        self.block("/name", detail, "Choose another name, or delete that one.", ProblemCode.FOREIGN)
        return False

    def look(self, api: client.ApiClient) -> None:
        """What the specification refers to, and what its command says."""
        core, spec = client.CoreV1Api(api), self.spec
        if missing := namespace_blockers(core, spec.namespace):
            self.blockers += missing
            return
        self.services = [each["metadata"]["name"] for each in objects.services_of(api, spec.namespace, spec.name)]
        for manifest in services(self.record.tag, spec, "-"):
            name = manifest["metadata"]["name"]
            there = objects.service(api, spec.namespace, name)
            if there is not None and labels_of(there).get(LABEL_DEPLOYMENT) != spec.name:
                detail = f"a Service {name} exists that is not this deployment's"
                self.block("/name", detail, "Choose another name.", ProblemCode.FOREIGN)
        self._storage(core)
        token = self._credentials(core)
        if spec.service == "public":
            self._controller(api)
        self._lint(token)

    def _storage(self, core: client.CoreV1Api) -> None:
        """The claims, which must be there and Bound."""
        spec = self.spec
        read = core.read_namespaced_persistent_volume_claim
        if spec.storage is None:
            self.mounts = default_mounts(read_or_none(read, DEFAULT_CLAIM, spec.namespace) is not None)
        else:
            self.mounts = spec.storage
        for position, mount in enumerate(self.mounts):
            found: Any = read_or_none(read, mount.claim, spec.namespace)
            field = f"/storage/{position}/claim" if spec.storage is not None else "/storage"
            if found is None:
                detail = f"namespace {spec.namespace} has no claim {mount.claim}"
                self.block(field, detail, "Mount storage first (create-storage).", ProblemCode.NOT_FOUND)
                continue
            phase = found.status.phase if found.status is not None else "Pending"
            self.checks.append(Check(name=f"claim {mount.claim}", passed=phase == "Bound", detail=phase))
            if phase != "Bound":
                remedy = "Wait until it is Bound, or look at what holds it up (create-storage tells)."
                self.block(field, f"claim {mount.claim} is {phase}", remedy, ProblemCode.NOT_READY)
            volume = found.spec.volume_name
            there = read_or_none(core.read_persistent_volume, volume) if volume else None
            self.claims[mount.claim] = claim_of(found, there, self.record.tag)

    def _credentials(self, core: client.CoreV1Api) -> str | None:
        """Every credential must be stored. Returns the Hugging Face token, where one is used."""
        token = None
        for field, name in self.spec.credentials.items():
            found = read_or_none(core.read_namespaced_secret, credential_secret(name), self.spec.namespace)
            if found is None:
                detail = f"namespace {self.spec.namespace} has no credential {name}"
                self.block(field, detail, "Store it first (store-credential).", ProblemCode.NOT_FOUND)
            elif field == "/credential":
                token = token_in(found)
        return token

    def _controller(self, api: client.ApiClient) -> None:
        check, blockers = balancer_controller(api, "/service")
        self.checks.append(check)
        self.blockers += blockers

    def _lint(self, token: str | None) -> None:
        spec, model = self.spec, self._model(token)
        if model.missing is not None:
            self.warnings.append(model.missing)
        if model.gated and token is not None:
            self.warnings.append(
                f"{self.command.model} is given only to who has asked its owner, and the account of credential "
                f"{spec.credential} has not been admitted"
            )
        shapes = describe_types(
            self.world.aws, self.record.region, [each.removeprefix("ml.") for each in spec.instance_types]
        )
        for position, name in enumerate(spec.instance_types):
            if name.removeprefix("ml.") not in shapes:
                detail = f"EC2 knows no instance type {name} in {self.record.region}"
                self.block(f"/instance_types/{position}", detail, "Correct its name.")
        self._efa(shapes)
        weights = model.shape.weight_bytes if model.shape is not None else None
        if weights:
            minutes = math.ceil(10 + weights / GIB / GIB_A_MINUTE)
            self.facts["startup_minutes"] = min(max(minutes, LEAST_STARTUP), MOST_STARTUP)
        facts = LintFacts(
            name=spec.name,
            image=spec.chosen_image or "",
            port=spec.port,
            gpu_count=spec.gpu_count,
            nodes=[
                NodeShape(instance_type=name, gpus=fact.accelerators, gpu_gib=fact.gpu_gib or None)
                for name in spec.instance_types
                if (fact := shapes.get(name.removeprefix("ml."))) is not None
            ],
            model=model.shape,
            mounts={each.mount_path: each.claim for each in self.mounts},
            environment=spec.env,
            credential=token is not None or TOKEN_VARIABLE in spec.secret_env,
            gated=model.gated,
            service=spec.service != "none",
        )
        for finding in findings_of(spec, facts):
            if finding.severity is Severity.ERROR:
                self.block(finding.field, finding.message, finding.remedy or "Correct it.")
            elif finding.severity is Severity.WARNING:
                self.warnings.append(f"{finding.message}. {finding.remedy or ''}".strip())

    def _efa(self, shapes: dict[str, InstanceFacts]) -> None:
        """A replica's interfaces are all of one machine."""
        most = max((fact.efa_interfaces for fact in shapes.values()), default=None)
        if most is not None and self.spec.efa > most:
            detail = f"a replica takes {self.spec.efa} EFA interfaces, and the instance types have at most {most}"
            self.block("/efa", detail, f"Ask for at most {most}." if most else "Leave efa out.")

    def _model(self, token: str | None) -> model_facts.ModelFacts:
        """What is known of the model: from the storage that it lies on, or from Hugging Face."""
        model = self.command.model
        if model is None:
            return model_facts.ModelFacts()
        if HUB_ID.match(model):
            options, _ = options_of(self.command)
            revision = next((each.value for each in options if each.name == "--revision"), None)
            return model_facts.of_hub(self.world.settings.hugging_face_endpoint, model, revision, token)
        for mount in sorted(self.mounts, key=lambda each: -len(each.mount_path)):
            place, claim = f"{mount.mount_path.rstrip('/')}/", self.claims.get(mount.claim)
            if claim is not None and claim.type is StorageType.S3 and claim.bucket and model.startswith(place):
                path = f"{mount.sub_path.strip('/')}/" if mount.sub_path else ""
                return model_facts.of_path(self.world.aws, self.record.region, claim, path + model.removeprefix(place))
        return model_facts.ModelFacts()

    def surge(self, api: client.ApiClient, found: Raw) -> None:
        """An update without a gap needs room for one replica more."""
        pods = objects.pods_of(api, found)
        if self.spec.strategy == "recreate":
            self.warnings.append("nothing answers from when the old replicas end until the new ones have loaded")
            self.room(api, self.spec.replicas, pods)
            return
        room = self._seen(api, [])
        if self.spec.gpu_count and room.slots < 1 and not room.scaled:
            self.warnings.append(
                "no GPUs are free for a new replica beside the old ones, so that the update would wait; "
                'send strategy "recreate" to end the old ones first, with a gap'
            )

    def room(self, api: client.ApiClient, replicas: int, freed: list[Raw]) -> None:
        spec, room = self.spec, self._seen(api, freed)
        where = ", ".join(spec.instance_types) or "any node"
        if room.types and not room.large_enough and not room.scaled:
            self._too_large(room, where)
        elif not room.types and not room.scaled:
            self.warnings.append(
                f"the cluster has no node that may take a replica ({where}): it waits until one is added"
            )
        elif (told := shortfall(room, spec.gpu_count, replicas)) is not None:
            self.warnings.append(told)

    def _too_large(self, room: Room, where: str) -> None:
        """At the field that asks for more than any node has, with what the largest has."""
        requests = self._requests()
        short = room.short_of(requests)
        asked = [
            f"{in_words(name, requests[name])} (one has at most {in_words(name, room.most[name])})"
            for name in short or requests
        ]
        self.block(
            next((pointer for name, pointer in REQUESTED_BY.items() if name in short), "/resources"),
            f"no node of the cluster ({where}) is large enough for a replica, which takes {', '.join(asked)}",
            "Ask for less, or add an instance group of larger machines (add-instance-group).",
            ProblemCode.CAPACITY,
        )

    def _requests(self) -> dict[str, str]:
        manifest = deployment(self.record.tag, self.spec, self.mounts, operation="-", run="-")
        requests: dict[str, str] = manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        return requests

    def _seen(self, api: client.ApiClient, freed: list[Raw]) -> Room:
        room = room_for(api, self.spec, self._requests(), freed)
        self.checks += room_checks(room, self.spec.gpu_count)
        return room

    def block(self, field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> None:
        self.blockers.append(FieldError(field=field, detail=detail, remedy=remedy, code=code))


def balancer_controller(api: client.ApiClient, field: str) -> tuple[Check, list[FieldError]]:
    """A load balancer is made by its controller, which must run. A blocker at ``field`` where it does not."""
    names = CONTROLLERS[Feature.LOAD_BALANCER_CONTROLLER]
    there = [
        each
        for each in listed(client.AppsV1Api(api).list_deployment_for_all_namespaces)
        if each.metadata.name in names or (each.metadata.labels or {}).get("app.kubernetes.io/name") in names
    ]
    runs = any(each.status.available_replicas for each in there)
    detail = None if runs else "it does not run" if there else "it is not installed"
    remedy = "Switch the feature load_balancer_controller on (update-features)."
    check = Check(name="AWS Load Balancer Controller", passed=runs, detail=detail, remedy=remedy)
    told = f"the AWS Load Balancer Controller: {detail}"
    return check, [] if runs else [FieldError(field=field, detail=told, remedy=remedy, code=ProblemCode.NOT_READY)]
