"""Objects of any kind in a cluster's Kubernetes API, read and deleted by their paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities.kubernetes import REQUEST_TIMEOUT

PAGE = 500
Object = dict[str, Any]


class Objects:
    """One connection, with what was discovered through it."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api
        self._kinds: dict[str, dict[str, Any]] = {}

    def get(self, path: str, **query: Any) -> Any | None:
        """What is under a path; None only where Kubernetes says that there is nothing."""
        try:
            return self._request("GET", path, query)
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def list(self, path: str) -> Iterator[Object]:
        """Every object of a collection, paged; none of a kind that the cluster does not know."""
        query: dict[str, Any] = {"limit": PAGE}
        while True:
            page = self.get(path, **query)
            if page is None:
                return
            yield from page.get("items") or ()
            mark = (page.get("metadata") or {}).get("continue")
            if not mark:
                return
            query["continue"] = mark

    def delete(self, path: str) -> None:
        """Begin the deletion of an object, with what it owns; one that is not there is as asked."""
        try:
            self._request("DELETE", path, {"propagationPolicy": "Background"})
        except ApiException as error:
            if error.status != 404:
                raise

    def patch(self, path: str, change: Object) -> None:
        self._request("PATCH", path, {}, change)

    def path_of(self, api_version: str, kind: str, namespace: str | None, name: str) -> str | None:
        """Where an object is; None for a kind that the cluster does not serve."""
        root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
        if root not in self._kinds:
            listed = (self.get(root) or {}).get("resources") or []
            self._kinds[root] = {each["kind"]: each for each in listed if "/" not in each["name"]}
        found = self._kinds[root].get(kind)
        if found is None:
            return None
        place = f"/namespaces/{namespace}" if found.get("namespaced") and namespace else ""
        return f"{root}{place}/{found['name']}/{name}"

    def _request(self, method: str, path: str, query: dict[str, Any], body: Object | None = None) -> Any:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json"
        api: Any = self._api
        request = api.param_serialize(method, path, {}, list(query.items()), headers, body, [], {}, ["BearerToken"], {})
        response = api.call_api(*request, _request_timeout=REQUEST_TIMEOUT)
        response.read()
        return api.response_deserialize(response, {"2XX": "object"}).data


def named(found: Object) -> str:
    """``namespace/name``, or the name alone of what is in no namespace."""
    meta = found["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def waits_for(found: Object) -> str:
    """What holds an object that is being deleted."""
    meta = found["metadata"]
    if not meta.get("deletionTimestamp"):
        return "not deleted yet"
    finalizers = ", ".join(meta.get("finalizers") or [])
    return f"waits for {finalizers}" if finalizers else "is going"
