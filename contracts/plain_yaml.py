"""YAML without what can make a short text endless: of strangers' files it is read before anything else is checked."""

from __future__ import annotations

import re
from typing import Any

import yaml

DEEPEST = 50
"""Lists and objects within one another in one text."""
MOST_VALUES = 5_000
"""Names, values, lists and objects of one text: PyYAML takes some 50 microseconds for each, and the gateway waits."""


def read_yaml(text: str) -> Any:
    """What a text means. Dates stay text, and ``1e-5`` is a number. Raises yaml.YAMLError, ValueError or RecursionError
    where it is no YAML, refers to an anchor, gives a name twice, or has more than ``MOST_VALUES`` values."""
    return yaml.load(text, Loader=_Plain)


class _Plain(yaml.SafeLoader):
    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._values = 0
        self._depth = 0

    def fetch_flow_collection_start(self, token: Any) -> None:
        # The scanner looks at every open bracket for every token: that has to be known before it composes anything.
        if self.flow_level >= DEEPEST:
            raise yaml.YAMLError(f"it is deeper than {DEEPEST} lists and objects within one another")
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it refers to an anchor (*name); write the value out")
        self._values += 1
        if self._values > MOST_VALUES:
            raise yaml.YAMLError(f"it has more than {MOST_VALUES:,} names and values")
        if self._depth > DEEPEST:
            raise yaml.YAMLError(f"it is deeper than {DEEPEST} lists and objects within one another")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in names:
                raise yaml.YAMLError(f"{key.value!r} is given twice")
            names.add(key.value)
        return super().construct_mapping(node, deep)


# Dates stay the text that they are, as OmegaConf has it.
_Plain.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
# As YAML 1.2 and OmegaConf do, 1e-5 is a number: PyYAML takes it for text, because YAML 1.1 asks for a point in it.
_Plain.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
