"""FSx file systems that the platform made for claims of a cluster."""

from __future__ import annotations

from typing import Any

from activities.aws import AwsClients, tag_map
from activities.fsx_storage.file_systems import begin_deletion, describe, owned_file_systems
from activities.teardown.lookup import is_kept, why_kept
from contracts.names import TAG_RESOURCE
from contracts.teardown import Kept, Part, Resource, Teardown

FILE_SYSTEM = "FSx file system"


class FileSystemDeleter:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    def find(self, asked: Teardown) -> list[Resource]:
        return [
            Resource(part=Part.FILE_SYSTEMS, kind=FILE_SYSTEM, id=each["FileSystemId"], detail=_detail(each))
            for each in self._owned(asked)
            if not _is_kept(asked, each)
        ]

    def kept(self, asked: Teardown) -> list[Kept]:
        """Those that keep names."""
        return [
            Kept(kind=FILE_SYSTEM, id=each["FileSystemId"], why=why_kept(asked, each["FileSystemId"]))
            for each in self._owned(asked)
            if _is_kept(asked, each)
        ]

    def delete(self, asked: Teardown, resource: Resource) -> None:
        region = asked.scope.region
        if (found := describe(self._aws, region, resource.id)) is not None:
            begin_deletion(self._aws, region, found)

    def _owned(self, asked: Teardown) -> list[Any]:
        return owned_file_systems(self._aws, asked.scope.region, asked.scope.cluster)


def _is_kept(asked: Teardown, found: Any) -> bool:
    return is_kept(asked, found["FileSystemId"], found["ResourceARN"])


def _detail(found: Any) -> str:
    claim = tag_map(found.get("Tags")).get(TAG_RESOURCE, "").partition("/")[2]
    return f"for claim {claim or '?'}, {found['StorageCapacity']} GiB, {found['Lifecycle']}"
