"""Claims on file systems of FSx for Lustre. They are listed and deleted as all storage is."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.managed import STARTS, Start, Tag
from contracts import catalogue
from contracts.fsx_storage import FsxStorageSpec

router = APIRouter(prefix="/api/v1/clusters/{tag}/fsx-storage", tags=["storage"])


@router.post("", operation_id="create_fsx_storage", summary="Mount FSx for Lustre storage", **STARTS)
async def create_fsx_storage(start: Start, tag: Tag, body: FsxStorageSpec) -> Response:
    """A claim on a file system of FSx for Lustre, one that exists or a new one, which a pod has used when the operation
    ends."""
    return await start.on(catalogue.CREATE_FSX_STORAGE, tag, body)
