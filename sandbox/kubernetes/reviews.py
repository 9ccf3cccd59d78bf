"""Kinds that are questions: who am I, may I, is this token good.

https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .discovery import REVIEWS
from .identity import ADMIN_GROUP
from .objects import dig
from .replies import Reply, reply
from .requests import Call
from .resources import Json

if TYPE_CHECKING:
    from .cluster import Cluster


def answer(cluster: Cluster, call: Call, group: str, plural: str) -> Reply:
    body = call.body_object
    spec = body.get("spec") or {}
    match plural:
        case "selfsubjectaccessreviews":
            status: Json = _decision(call.principal.admin)
        case "subjectaccessreviews" | "localsubjectaccessreviews":
            admins = {ADMIN_GROUP, *cluster.admin_groups()}
            named = spec.get("user") in cluster.admin_users() or bool(admins & set(spec.get("groups") or []))
            status = _decision(named)
        case "selfsubjectrulesreviews":
            everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}] if call.principal.admin else []
            paths = [{"verbs": ["*"], "nonResourceURLs": ["*"]}] if call.principal.admin else []
            status = {"resourceRules": everything, "nonResourceRules": paths, "incomplete": False}
        case "selfsubjectreviews":
            status = {"userInfo": call.principal.user_info()}
        case _:
            status = _token_status(cluster, dig(spec, "token", ""))
    meta = {"creationTimestamp": None, **(body.get("metadata") or {})}
    kind = REVIEWS[group, plural]
    return reply({"kind": kind, "apiVersion": f"{group}/v1", "metadata": meta, "spec": spec, "status": status}, 201)


def _decision(allowed: bool) -> Json:
    return {"allowed": True, "reason": "cluster-admin"} if allowed else {"allowed": False}


def _token_status(cluster: Cluster, token: str) -> Json:
    principal = cluster.authenticate(token)
    if principal is None:
        return {"authenticated": False, "error": "invalid bearer token"}
    return {"authenticated": True, "user": principal.user_info()}
