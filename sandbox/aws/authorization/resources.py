"""Which resources a call is about: ARNs by the reference's resource types, out of the call's parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from sandbox.aws import backends
from sandbox.aws.authorization.tags import Tags
from sandbox.aws.call import Call

EC2_IDS = {
    "elastic-ip": "eipalloc-",
    "instance": "i-",
    "internet-gateway": "igw-",
    "launch-template": "lt-",
    "natgateway": "nat-",
    "network-interface": "eni-",
    "route-table": "rtb-",
    "security-group": "sg-",
    "subnet": "subnet-",
    "volume": "vol-",
    "vpc": "vpc-",
    "vpc-endpoint": "vpce-",
}
"""How identifiers of EC2's resources begin."""
ANY = "*"
"""The identifier of what does not exist yet."""


class Resources:
    """Of one call. ``service`` is the prefix of the action, which for what a service does as the caller is another than
    the call's own."""

    def __init__(self, call: Call, tags: Tags) -> None:
        self._call, self._params, self._tags = call, call.params, tags

    def named(self, service: str, kind: str) -> list[str]:
        """The ARNs of that type that the call names; empty if it names none."""
        found = getattr(self, f"_{service.replace('-', '_')}", self._none)(kind)
        return list(dict.fromkeys(found))

    def new(self, service: str, kind: str) -> str:
        """The ARN of what a call is to make."""
        match service, kind:
            case "iam", "role":
                path = self._params.get("Path") or "/"
                return self._arn("iam", f"role{path}{self._params.get('RoleName', ANY)}", region="")
            case "iam", "oidc-provider":
                url = urlsplit(str(self._params.get("Url", "")))
                return self._arn("iam", f"oidc-provider/{url.netloc}{url.path}", region="")
            case "eks", "cluster":
                return self._arn("eks", f"cluster/{self._params.get('name', ANY)}")
            case "eks", "addon":
                return self._arn("eks", f"addon/{self._cluster()}/{self._params.get('addonName', ANY)}/{ANY}")
            case "eks", "nodegroup":
                return self._arn("eks", f"nodegroup/{self._cluster()}/{self._params.get('nodegroupName', ANY)}/{ANY}")
            case "eks", "access-entry":
                return self._entry(str(self._params.get("principalArn", "")), self._cluster())
            case "eks", _:
                return self._arn("eks", f"{kind}/{self._cluster()}/{ANY}")
            case "sagemaker", "training-job":
                return self._arn("sagemaker", f"{kind}/{self._params.get('TrainingJobName', ANY)}")
            case "sagemaker", "mlflow-tracking-server":
                return self._arn("sagemaker", f"{kind}/{self._params.get('TrackingServerName', ANY)}")
        return self._arn(service, f"{kind}/{ANY}")

    def _arn(self, service: str, resource: str, region: str | None = None) -> str:
        where = self._call.region if region is None else region
        return f"arn:aws:{service}:{where}:{self._call.account}:{resource}"

    def _none(self, kind: str) -> Iterator[str]:
        yield from ()

    # EC2

    def _ec2(self, kind: str) -> Iterator[str]:
        named = list(self._ec2_ids(kind))
        if not named and kind == "vpc" and self._call.operation == "CreateNatGateway":
            named = [self._vpc_of(each) for each in self._ec2_ids("subnet")]
        for each in named:
            yield self._arn("ec2", f"{kind}/{each}")

    def _ec2_ids(self, kind: str) -> Iterator[str]:
        """Identifiers in the call's own members: those deeper down are not what it is about."""
        beginning = EC2_IDS.get(kind)
        for value in self._params.values():
            for each in value if isinstance(value, list) else [value]:
                if beginning is not None and isinstance(each, str) and each.startswith(beginning):
                    yield each

    def _vpc_of(self, subnet: str) -> str:
        for held in backends.ec2(*self._call.place).subnets.values():
            if subnet in held:
                return str(held[subnet].vpc_id)
        return ANY

    # EKS

    def _cluster(self) -> str:
        """The EKS cluster's name, also where HyperPod or FSx look at it as the caller."""
        if name := self._params.get("clusterName") or self._params.get("name"):
            return str(name)
        orchestrator = self._params.get("Orchestrator") or {}
        return str((orchestrator.get("Eks") or {}).get("ClusterArn", ANY)).rpartition("/")[2]

    def _eks(self, kind: str) -> Iterator[str]:
        p, cluster = self._params, self._cluster()
        if arn := p.get("resourceArn"):
            if f":{kind}/" in arn:
                yield str(arn)
            return
        match kind:
            case "cluster":
                yield self._arn("eks", f"cluster/{cluster}")
            case "addon" if name := p.get("addonName"):
                yield self._held(f"addon/{cluster}/{name}/")
            case "nodegroup" if name := p.get("nodegroupName"):
                yield self._held(f"nodegroup/{cluster}/{name}/")
            case "fargateprofile" if name := p.get("fargateProfileName"):
                yield self._held(f"fargateprofile/{cluster}/{name}/")
            case "access-entry" if principal := p.get("principalArn"):
                yield self._entry(str(principal), cluster)
            case "podidentityassociation" if identifier := p.get("associationId"):
                yield self._arn("eks", f"podidentityassociation/{cluster}/{identifier}")

    def _held(self, beginning: str) -> str:
        """The ARN that begins so; one with any end for what does not exist."""
        found = self._tags.find("eks", self._call.region, self._call.account, beginning)
        return found or self._arn("eks", f"{beginning}{ANY}")

    def _entry(self, principal: str, cluster: str) -> str:
        account, _, who = principal.partition(":iam::")[2].partition(":")
        kind, _, path = who.partition("/")
        return self._held(f"access-entry/{cluster}/{kind or ANY}/{account or ANY}/{path.rpartition('/')[2] or ANY}/")

    # SageMaker

    def _sagemaker(self, kind: str) -> Iterator[str]:
        p = self._params
        for member in ("ResourceArn", "Arn"):
            if (arn := p.get(member)) and f":{kind}/" in arn:
                yield str(arn)
        match kind:
            case "cluster" if name := p.get("ClusterName"):
                known = name if str(name).startswith("arn:") else self._tags.hyperpod(self._call.place, name)
                yield known or self._arn("sagemaker", f"cluster/{ANY}")
            case "training-job" if name := p.get("TrainingJobName"):
                yield self._arn("sagemaker", f"training-job/{name}")
            case "mlflow-tracking-server" if name := p.get("TrackingServerName"):
                yield self._arn("sagemaker", f"mlflow-tracking-server/{name}")
            case "training-plan":
                yield from members(p, "TrainingPlanArn")

    # The others

    def _iam(self, kind: str) -> Iterator[str]:
        p = self._params
        if kind == "role" and (name := p.get("RoleName")):
            held = backends.role(self._call.account, name)
            yield held.arn if held is not None else self._arn("iam", f"role/{name}", region="")
        elif arn := p.get({"policy": "PolicyArn", "oidc-provider": "OpenIDConnectProviderArn"}.get(kind, "")):
            yield str(arn)
        elif kind == "instance-profile" and (name := p.get("InstanceProfileName")):
            profiles = backends.iam(self._call.account).instance_profiles.values()
            held = next((each for each in profiles if each.name == name), None)
            yield held.arn if held is not None else self._arn("iam", f"instance-profile/{name}", region="")

    def _s3(self, kind: str) -> Iterator[str]:
        p = self._params
        if kind == "bucket" and "Bucket" in p:
            yield f"arn:aws:s3:::{p['Bucket']}"
        if kind == "object" and "Bucket" in p:
            keys = [p["Key"]] if "Key" in p else [each["Key"] for each in (p.get("Delete") or {}).get("Objects", [])]
            yield from (f"arn:aws:s3:::{p['Bucket']}/{key}" for key in keys)

    def _fsx(self, kind: str) -> Iterator[str]:
        if kind == "file-system" and (identifier := self._params.get("FileSystemId")):
            yield self._arn("fsx", f"file-system/{identifier}")

    def _aps(self, kind: str) -> Iterator[str]:
        if kind == "workspace" and (identifier := self._params.get("workspaceId")):
            yield self._arn("aps", f"workspace/{identifier}")

    def _logs(self, kind: str) -> Iterator[str]:
        p = self._params
        if name := p.get("logGroupName"):
            stream = f":log-stream:{p.get('logStreamName', ANY)}" if kind == "log-stream" else ":*"
            yield self._arn("logs", f"log-group:{name}{stream}")

    def _servicequotas(self, kind: str) -> Iterator[str]:
        p = self._params
        if p.get("ServiceCode") and p.get("QuotaCode"):
            yield self._arn("servicequotas", f"{p['ServiceCode']}/{p['QuotaCode']}")

    def _sts(self, kind: str) -> Iterator[str]:
        if kind == "role" and (arn := self._params.get("RoleArn")):
            yield str(arn)


def members(value: Any, name: str) -> Iterator[str]:
    """Every text that is called ``name``, at any depth."""
    if isinstance(value, dict):
        for key, held in value.items():
            if key == name and isinstance(held, str):
                yield held
            else:
                yield from members(held, name)
    elif isinstance(value, list):
        for each in value:
            yield from members(each, name)
