"""Who makes a request, and what they may do: administrators everything, others only ask about themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .errors import ApiError
from .resources import Json

ADMIN_GROUP = "system:masters"


@dataclass(frozen=True)
class Principal:
    """An authenticated caller, in the terms of Kubernetes."""

    username: str
    groups: tuple[str, ...] = ()
    admin: bool = False
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = ()

    def user_info(self) -> Json:
        """authentication.k8s.io/v1 UserInfo"""
        info: Json = {"username": self.username, "groups": list(self.groups)}
        if self.uid:
            info["uid"] = self.uid
        if self.extra:
            info["extra"] = {key: [value] for key, value in self.extra}
        return info


ANYBODY = Principal("sandbox-admin", (ADMIN_GROUP, "system:authenticated"), admin=True)
"""Who everybody is where there is no authentication."""

Authenticator = Callable[[str], Principal | None]
"""A bearer token's principal, None if the token is not accepted."""


def bearer_token(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized")


# What the ClusterRoles system:discovery and system:basic-user give to everybody who is authenticated.
_OPEN_PATHS = ("/api", "/apis", "/version", "/openapi", "/healthz", "/livez", "/readyz")


def authorize(
    principal: Principal, method: str, path: str, verb: str, group: str, resource: str, namespace: str
) -> None:
    """Raise 403 unless the principal may do this."""
    if principal.admin or (not resource and method == "GET" and path.startswith(_OPEN_PATHS)):
        return
    if resource.startswith("selfsubject"):
        return
    if not resource:
        raise ApiError(403, f'forbidden: User "{principal.username}" cannot {verb} path "{path}"')
    where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
    raise ApiError(
        403,
        f'{resource}{"." + group if group else ""} is forbidden: User "{principal.username}" cannot {verb} resource '
        f'"{resource}" in API group "{group}"{where}',
        details={"group": group, "kind": resource},
    )
