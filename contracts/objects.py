"""Names of Kubernetes objects as specs hold them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from contracts.names import KUBERNETES_NAME, KUBERNETES_SERVICE, Rule

DEFAULT_NAMESPACE = "default"


def _keeps(rule: Rule, name: str) -> str:
    if violation := rule.violation(name):
        raise ValueError(violation)
    return name


_HOST = r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)(?=:))(?::\d{1,5})?/"
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_HOST})?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@[a-z0-9]+:[0-9a-f]{{32,128}})?"
)


def _image(name: str) -> str:
    if "://" in name:
        raise ValueError(f"an image is named without {name.partition('://')[0]}://, as registry/team/trainer:1.0")
    if len(name) <= 500 and _IMAGE.fullmatch(name) is None:
        raise ValueError(
            "is no name of an image: [registry/]repository[:tag][@sha256:…], the repository in lower-case letters"
        )
    return name


ObjectName = Annotated[str, AfterValidator(lambda name: _keeps(KUBERNETES_NAME, name))]
"""Of an object of a namespace, or of a namespace itself."""
ServedName = Annotated[str, AfterValidator(lambda name: _keeps(KUBERNETES_SERVICE, name))]
"""Of what a Service is called after."""
ImageName = Annotated[str, AfterValidator(_image)]
"""Of a container image, as a kubelet can pull it.
(https://github.com/distribution/reference: a first part without a dot or port belongs to the repository)"""
