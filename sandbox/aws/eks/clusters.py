"""EKS clusters: creation, updates and deletion of control planes."""

from __future__ import annotations

import base64
import contextlib
import secrets
import uuid
from typing import Any

from sandbox import timings
from sandbox.aws import backends
from sandbox.aws.call import AwsError, Call
from sandbox.aws.eks.base import Base
from sandbox.aws.eks.catalog import DEFAULT_VERSION, VERSIONS
from sandbox.aws.eks.state import ADMIN_POLICY, Cluster, Entry
from sandbox.aws.sts import principal
from sandbox.aws.world import World, hex_id, paginate
from sandbox.dataplane import ClusterFacts

LOG_TYPES = ["api", "audit", "authenticator", "controllerManager", "scheduler"]
EXTRAS = (
    "encryptionConfig",
    "upgradePolicy",
    "zonalShiftConfig",
    "remoteNetworkConfig",
    "computeConfig",
    "storageConfig",
    "deletionProtection",
    "controlPlaneScalingConfig",
)


class Clusters(Base):
    """Handlers of the operations on clusters."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.on("eks.active", self._became_active)
        world.on("eks.deleted", self._deleted)
        world.on("eks.updated", self._updated)

    def CreateCluster(self, call: Call) -> Any:
        name = call.params["name"]
        answer = self.once(call, name, lambda: self._create(call))
        cluster = self.find(call.place, name)
        return {"cluster": cluster.shape()} if cluster is not None else answer

    def DescribeCluster(self, call: Call) -> Any:
        return {"cluster": self.cluster(call, "name").shape()}

    def ListClusters(self, call: Call) -> Any:
        names = sorted(self.state.clusters.get(call.place, {}))
        page, token = paginate(names, call.params.get("nextToken"), call.params.get("maxResults") or 100)
        return {"clusters": page, "nextToken": token}

    def DeleteCluster(self, call: Call) -> Any:
        cluster = self.cluster(call, "name")
        if cluster.nodegroups:
            raise AwsError("ResourceInUseException", "Cluster has nodegroups attached", clusterName=cluster.name)
        if cluster.extras.get("deletionProtection"):
            raise AwsError("InvalidRequestException", f"Cluster {cluster.name} has deletion protection enabled.")
        if cluster.status in ("CREATING", "UPDATING"):
            raise AwsError(
                "ResourceInUseException",
                f"Cluster {cluster.name} has status {cluster.status} and cannot be deleted.",
                clusterName=cluster.name,
            )
        if cluster.status != "DELETING":
            cluster.status = "DELETING"
            self._schedule(timings.EKS_DELETE, "eks.deleted", cluster)
        return {"cluster": cluster.shape()}

    def UpdateClusterConfig(self, call: Call) -> Any:
        cluster = self.cluster(call, "name")
        return self.once(call, cluster.name, lambda: self._update_config(call, cluster))

    def UpdateClusterVersion(self, call: Call) -> Any:
        cluster = self.cluster(call, "name")
        return self.once(call, cluster.name, lambda: self._update_version(call, cluster))

    def DescribeUpdate(self, call: Call) -> Any:
        update = self.cluster(call, "name").updates.get(call.params["updateId"])
        if update is None or _subject(call) != (update.addon, update.nodegroup):
            raise AwsError("ResourceNotFoundException", f"No update found for ID: {call.params['updateId']}")
        return {"update": update.shape()}

    def ListUpdates(self, call: Call) -> Any:
        subject = _subject(call)
        found = [u.id for u in self.cluster(call, "name").updates.values() if (u.addon, u.nodegroup) == subject]
        page, token = paginate(found, call.params.get("nextToken"), call.params.get("maxResults") or 100)
        return {"updateIds": page, "nextToken": token}

    def DescribeClusterVersions(self, call: Call) -> Any:
        wanted = call.params.get("clusterVersions") or list(VERSIONS)
        now, listed = self.world.now(), []
        for version in (VERSIONS[v] for v in wanted if v in VERSIONS):
            status = "STANDARD_SUPPORT" if now < version.end_of_standard else "EXTENDED_SUPPORT"
            if call.params.get("versionStatus") not in (None, status):
                continue
            if call.params.get("defaultOnly") and version.version != DEFAULT_VERSION:
                continue
            listed.append(
                {
                    "clusterVersion": version.version,
                    "clusterType": "eks",
                    "defaultPlatformVersion": "eks.5",
                    "defaultVersion": version.version == DEFAULT_VERSION,
                    "releaseDate": version.released,
                    "endOfStandardSupportDate": version.end_of_standard,
                    "endOfExtendedSupportDate": version.end_of_extended,
                    "status": status.lower().replace("_", "-"),
                    "versionStatus": status,
                    "kubernetesPatchVersion": version.patch,
                }
            )
        return {"clusterVersions": listed[::-1]}

    def _create(self, call: Call) -> dict[str, Any]:
        p = call.params
        name = p["name"]
        if self.find(call.place, name) is not None:
            raise AwsError("ResourceInUseException", f"Cluster already exists with name: {name}", clusterName=name)
        version = p.get("version") or DEFAULT_VERSION
        if version not in VERSIONS:
            raise AwsError("InvalidParameterException", f"unsupported Kubernetes version {version}")
        if problem := self.world.role_problem(p["roleArn"], "eks.amazonaws.com"):
            raise AwsError(
                "InvalidParameterException",
                f"Role with arn: {p['roleArn']}, could not be assumed because it does not exist or the trusted entity "
                f"is not correct ({problem})",
                clusterName=name,
            )
        vpc = self._vpc_config(call, p["resourcesVpcConfig"])
        access = p.get("accessConfig") or {}
        admin = access.get("bootstrapClusterCreatorAdminPermissions")
        cluster = Cluster(
            name=name,
            arn=call.arn("eks", f"cluster/{name}"),
            account=call.account,
            region=call.region,
            version=version,
            role=p["roleArn"],
            creator=principal(call),
            creator_is_admin=True if admin is None else bool(admin),
            # https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessConfigRequest.html
            authentication=access.get("authenticationMode") or "CONFIG_MAP",
            created=self.world.now(),
            vpc=vpc,
            network={
                "serviceIpv4Cidr": "172.20.0.0/16",
                "ipFamily": "ipv4",
                "elasticLoadBalancing": {"enabled": False},
                **(p.get("kubernetesNetworkConfig") or {}),
            },
            logging=p.get("logging") or {"clusterLogging": [{"types": LOG_TYPES, "enabled": False}]},
            issuer=f"https://oidc.eks.{call.region}.amazonaws.com/id/{secrets.token_hex(16).upper()}",
            tags=p.get("tags") or {},
            token=p.get("clientRequestToken") or "",
            extras={k: p[k] for k in EXTRAS if k in p},
        )
        self._attach_network(cluster)
        self._mirror(call, cluster)
        if cluster.creator_is_admin and cluster.authentication != "CONFIG_MAP":
            self._admit_creator(cluster)
        self.state.clusters.setdefault(call.place, {})[name] = cluster
        self._schedule(timings.EKS_CREATE, "eks.active", cluster)
        return {"cluster": cluster.shape()}

    def _vpc_config(self, call: Call, request: dict[str, Any]) -> dict[str, Any]:
        subnet_ids = request.get("subnetIds") or []
        subnets = []
        for subnet_id in subnet_ids:
            subnet = self.world.subnet(call.place, subnet_id)
            if subnet is None:
                raise AwsError("InvalidParameterException", f"The subnet ID '{subnet_id}' does not exist")
            subnets.append(subnet)
        if len({s.availability_zone for s in subnets}) < 2:
            raise AwsError("InvalidParameterException", "Subnets specified must be in at least two different AZs")
        if len({s.vpc_id for s in subnets}) > 1:
            raise AwsError("InvalidParameterException", "Subnets must all belong to the same VPC")
        groups = request.get("securityGroupIds") or []
        for group_id in groups:
            if self.world.security_group(call.place, group_id) is None:
                raise AwsError("InvalidParameterException", f"The security group ID '{group_id}' does not exist")
        public = request.get("endpointPublicAccess")
        private = request.get("endpointPrivateAccess")
        if public is False and not private:
            raise AwsError("InvalidParameterException", "Private and public endpoint access cannot be false")
        return {
            "subnetIds": subnet_ids,
            "securityGroupIds": groups,
            "vpcId": subnets[0].vpc_id,
            "endpointPublicAccess": public is not False,
            "endpointPrivateAccess": bool(private),
            "publicAccessCidrs": request.get("publicAccessCidrs") or ["0.0.0.0/0"],
        }

    def _attach_network(self, cluster: Cluster) -> None:
        """The cluster security group, open to itself, and the control plane's interfaces in the subnets."""
        ec2 = backends.ec2(*cluster.place)
        group = ec2.create_security_group(
            f"eks-cluster-sg-{cluster.name}-{hex_id(9)}",
            "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, "
            "as well as any managed workloads.",
            vpc_id=cluster.vpc["vpcId"],
            tags={f"kubernetes.io/cluster/{cluster.name}": "owned", "aws:eks:cluster-name": cluster.name},
        )
        with contextlib.suppress(Exception):
            ec2.authorize_security_group_ingress(group.id, "-1", None, None, [], [{"GroupId": group.id}])
        cluster.vpc["clusterSecurityGroupId"] = group.id
        for subnet_id in cluster.vpc["subnetIds"][:2]:
            subnet: Any = self.world.subnet(cluster.place, subnet_id)
            eni = ec2.create_network_interface(
                subnet, subnet.get_available_subnet_ip(None), [], [group.id], f"Amazon EKS {cluster.name}"
            )
            cluster.interfaces.append(eni.id)
        self.world.changed("ec2")

    def _mirror(self, call: Call, cluster: Cluster) -> None:
        """moto's Fargate profiles need moto's cluster."""
        held = backends.eks(*call.place).create_cluster(
            name=cluster.name,
            role_arn=cluster.role,
            resources_vpc_config=cluster.vpc,
            version=cluster.version,
            tags=dict(cluster.tags),
        )
        held.status = "CREATING"
        self.world.changed("eks")

    def _admit_creator(self, cluster: Cluster) -> None:
        now = self.world.now()
        entry = Entry(
            principal=cluster.creator,
            arn=access_entry_arn(cluster, cluster.creator),
            username=default_username(cluster.creator),
            type="STANDARD",
            created=now,
            modified=now,
        )
        entry.policies[ADMIN_POLICY] = {
            "policyArn": ADMIN_POLICY,
            "accessScope": {"type": "cluster", "namespaces": []},
            "associatedAt": now,
            "modifiedAt": now,
        }
        cluster.entries[entry.principal] = entry

    def _became_active(self, account: str, region: str, name: str) -> None:
        cluster = self.find((account, region), name)
        if cluster is None or cluster.status != "CREATING":
            return
        self._connect(cluster)
        cluster.status = "ACTIVE"
        if held := backends.eks(account, region).clusters.get(name):
            held.status = "ACTIVE"
            self.world.changed("eks")
        self.publish_access(cluster)

    def reconnect(self) -> None:
        """Look up where the clusters of a snapshot answer: the data plane may have another port now."""
        for clusters in self.state.clusters.values():
            for cluster in (each for each in clusters.values() if each.endpoint):
                self._connect(cluster)

    def _connect(self, cluster: Cluster) -> None:
        facts = ClusterFacts(
            arn=cluster.arn,
            name=cluster.name,
            version=cluster.version,
            region=cluster.region,
            creator=cluster.creator,
            creator_is_admin=cluster.creator_is_admin,
        )
        endpoint = self.world.dataplane.create_cluster(facts)
        cluster.endpoint = endpoint.url
        cluster.certificate_authority = base64.b64encode(endpoint.certificate_authority.encode()).decode()

    def _deleted(self, account: str, region: str, name: str) -> None:
        cluster = self.find((account, region), name)
        if cluster is None or cluster.status != "DELETING":
            return
        ec2 = backends.ec2(account, region)
        for eni_id in cluster.interfaces:
            ec2.enis.pop(eni_id, None)
        for groups in ec2.groups.values():
            groups.pop(cluster.vpc["clusterSecurityGroupId"], None)
        backends.eks(account, region).clusters.pop(name, None)
        self.world.changed("ec2", "eks")
        del self.state.clusters[(account, region)][name]
        self.forget_tokens(cluster)
        self.world.dataplane.delete_cluster(cluster.arn)

    def _require_updatable(self, cluster: Cluster) -> None:
        if cluster.status != "ACTIVE" or cluster.active_update:
            raise AwsError(
                "ResourceInUseException",
                f"Cannot update cluster {cluster.name}: its status is {cluster.status} or an update is in progress.",
                clusterName=cluster.name,
            )

    def _update_config(self, call: Call, cluster: Cluster) -> dict[str, Any]:
        p = call.params
        self._require_updatable(cluster)
        changes = [k for k in ("resourcesVpcConfig", "logging", "accessConfig", *EXTRAS) if p.get(k) is not None]
        if len(changes) != 1:
            raise AwsError("InvalidParameterException", "Exactly one type of update can be requested at a time.")
        kind, params = "ConfigUpdate", {changes[0]: str(p[changes[0]])}
        if changes == ["resourcesVpcConfig"]:
            kind = "EndpointAccessUpdate"
            wanted = p["resourcesVpcConfig"]
            if wanted.get("subnetIds"):
                kind = "VpcConfigUpdate"
                self._vpc_config(call, {**cluster.vpc, **wanted})
            cluster.vpc.update({k: v for k, v in wanted.items() if v is not None})
        elif changes == ["logging"]:
            kind = "LoggingUpdate"
            cluster.logging = p["logging"]
        elif changes == ["accessConfig"]:
            kind = "AccessConfigUpdate"
            self._change_authentication(cluster, p["accessConfig"].get("authenticationMode"))
        else:
            cluster.extras[changes[0]] = p[changes[0]]
        return self._begin_update(cluster, kind, params, timings.EKS_UPDATE_CONFIG)

    def _change_authentication(self, cluster: Cluster, mode: str | None) -> None:
        """https://docs.aws.amazon.com/eks/latest/userguide/grant-k8s-access.html: the modes can only move forward."""
        order = ["CONFIG_MAP", "API_AND_CONFIG_MAP", "API"]
        if mode == cluster.authentication:
            raise AwsError("InvalidParameterException", f"The authentication mode is already {mode}.")
        if mode not in order or order.index(mode) < order.index(cluster.authentication):
            raise AwsError(
                "InvalidParameterException",
                f"Unsupported authentication mode update from {cluster.authentication} to {mode}",
            )
        cluster.authentication = mode

    def _update_version(self, call: Call, cluster: Cluster) -> dict[str, Any]:
        wanted = call.params["version"]
        self._require_updatable(cluster)
        minor = int(cluster.version.split(".")[1])
        if wanted not in VERSIONS or int(wanted.split(".")[1]) != minor + 1:
            raise AwsError(
                "InvalidParameterException",
                f"Unsupported Kubernetes minor version update from {cluster.version} to {wanted}",
            )
        cluster.extras["upgradingTo"] = wanted
        params = {"Version": wanted, "PlatformVersion": "eks.5"}
        return self._begin_update(cluster, "VersionUpdate", params, timings.EKS_UPDATE_VERSION)

    def _begin_update(self, cluster: Cluster, kind: str, params: dict[str, str], seconds: float) -> dict[str, Any]:
        update = self.new_update(cluster, kind, params)
        cluster.status = "UPDATING"
        self._schedule(seconds, "eks.updated", cluster, update=update.id)
        return {"update": update.shape()}

    def _updated(self, account: str, region: str, name: str, update: str) -> None:
        cluster = self.find((account, region), name)
        if cluster is None or update not in cluster.updates:
            return
        cluster.updates[update].status = "Successful"
        cluster.version = cluster.extras.pop("upgradingTo", cluster.version)
        if cluster.status == "UPDATING":
            cluster.status = "ACTIVE"
        self.publish_access(cluster)

    def _schedule(self, seconds: float, event: str, cluster: Cluster, **payload: Any) -> None:
        self.world.clock.schedule(
            seconds, event, account=cluster.account, region=cluster.region, name=cluster.name, **payload
        )


def _subject(call: Call) -> tuple[str, str]:
    """The add-on and the node group whose updates are asked for; the cluster's own have neither."""
    return call.params.get("addonName") or "", call.params.get("nodegroupName") or ""


def access_entry_arn(cluster: Cluster, principal_arn: str) -> str:
    kind, _, path = principal_arn.split(":", 5)[-1].partition("/")
    return (
        f"arn:aws:eks:{cluster.region}:{cluster.account}:access-entry/{cluster.name}/{kind}/"
        f"{principal_arn.split(':')[4]}/{path.rsplit('/', 1)[-1]}/{uuid.uuid4()}"
    )


def default_username(principal_arn: str) -> str:
    """A role's sessions keep their name (https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html)."""
    if ":role/" in principal_arn:
        account, name = principal_arn.split(":")[4], principal_arn.rsplit("/", 1)[-1]
        return f"arn:aws:sts::{account}:assumed-role/{name}/{{{{SessionName}}}}"
    return principal_arn
