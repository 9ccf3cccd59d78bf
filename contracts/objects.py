"""Names of Kubernetes objects as specs hold them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from contracts.names import KUBERNETES_NAME, KUBERNETES_SERVICE, Rule

DEFAULT_NAMESPACE = "default"


def _keeps(rule: Rule, name: str) -> str:
    if violation := rule.violation(name):
        raise ValueError(violation)
    return name


ObjectName = Annotated[str, AfterValidator(lambda name: _keeps(KUBERNETES_NAME, name))]
"""Of an object of a namespace, or of a namespace itself."""
ServedName = Annotated[str, AfterValidator(lambda name: _keeps(KUBERNETES_SERVICE, name))]
"""Of what a Service is called after."""
