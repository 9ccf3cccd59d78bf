"""The operations of the simulated EKS together, and the tags of everything it holds."""

from __future__ import annotations

from typing import Any

from sandbox.aws.call import AwsError, Call
from sandbox.aws.eks.access import Access
from sandbox.aws.eks.addons import Addons
from sandbox.aws.eks.clusters import Clusters
from sandbox.aws.eks.nodegroups import Nodegroups


class Eks(Clusters, Access, Addons, Nodegroups):
    """Handlers of EKS's operations. API: https://docs.aws.amazon.com/eks/latest/APIReference/API_Operations.html"""

    def TagResource(self, call: Call) -> Any:
        if (tags := self._tags(call)) is None:
            return call.forward()
        tags.update(call.params.get("tags") or {})
        return {}

    def UntagResource(self, call: Call) -> Any:
        if (tags := self._tags(call)) is None:
            return call.forward()
        for key in call.params.get("tagKeys") or []:
            tags.pop(key, None)
        return {}

    def ListTagsForResource(self, call: Call) -> Any:
        if (tags := self._tags(call)) is None:
            return call.forward()
        return {"tags": tags}

    def _tags(self, call: Call) -> dict[str, str] | None:
        """The tags of the resource that the ARN names; None for what is moto's."""
        arn = call.params["resourceArn"]
        kind, _, path = arn.split(":", 5)[-1].partition("/")
        if kind == "fargateprofile":
            return None
        cluster = self.state.clusters.get(call.place, {}).get(path.split("/")[0])
        if cluster is not None:
            resources: list[Any] = [cluster, *cluster.addons.values(), *cluster.entries.values()]
            for resource in (*resources, *cluster.associations.values(), *cluster.nodegroups.values()):
                if resource.arn == arn:
                    tags: dict[str, str] = resource.tags
                    return tags
        raise AwsError("NotFoundException", f"The specified resource could not be found: {arn}")
