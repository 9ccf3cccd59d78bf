"""What can be known of a model before it is loaded: its ``config.json`` and the size of its weights.

From the bucket behind a mounted claim, or from the Hugging Face Hub. Who cannot be asked is not waited for: a model is
served without these facts, too.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from botocore.exceptions import BotoCoreError, ClientError

from activities.aws import AwsClients
from activities.models.hub import Hub, HubError, Refusal
from contracts.command_facts import ModelShape
from contracts.command_lint import HUB_ID
from contracts.command_memory import shape_of
from contracts.models import DownloadSpec
from contracts.storage import Claim

PATIENCE = httpx.Timeout(4.0, connect=2.0)
MOST_CONFIG = 2 * 1024 * 1024
WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt")
"""Endings of files with weights; of several kinds, the first is what is loaded."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelFacts:
    shape: ModelShape | None = None
    gated: bool | None = None
    missing: str | None = None
    """Why there is no such model, where that is certain."""


def of_path(aws: AwsClients, region: str, claim: Claim, path: str) -> ModelFacts:
    """Of a model in the bucket that ``claim`` mounts; ``path`` is what pods see below their mount."""
    folder = f"{claim.prefix or ''}{path.strip('/')}/"
    s3 = aws.read.s3(region)
    try:
        page = s3.list_objects_v2(Bucket=claim.bucket, Prefix=folder, MaxKeys=1000)
        found = {each["Key"].removeprefix(folder): each["Size"] for each in page.get("Contents", [])}
        if not found:
            return ModelFacts(missing=f"s3://{claim.bucket}/{folder} holds nothing")
        config = None
        if 0 < found.get("config.json", 0) <= MOST_CONFIG:
            config = s3.get_object(Bucket=claim.bucket, Key=f"{folder}config.json")["Body"].read()
    except (BotoCoreError, ClientError) as error:
        logger.info("nothing is known of the model: %s", type(error).__name__)
        return ModelFacts()
    return ModelFacts(shape=_shape(config, found))


def of_hub(endpoint: str, repository: str, revision: str | None, token: str | None) -> ModelFacts:
    """Of a model of the Hugging Face Hub, as ``token`` sees it."""
    if not HUB_ID.match(repository):
        return ModelFacts()
    try:
        asked = DownloadSpec.model_validate({"repository": repository, "revision": revision or "main"})
    except ValueError:
        return ModelFacts()
    try:
        with Hub(endpoint, token) as hub:
            commit = hub.commit(asked)
            files = {each.path: each.size for each in hub.files(asked, commit) or ()}
            try:
                hub.check_access(asked, commit, "config.json" if "config.json" in files else next(iter(files), ""))
            except HubError as error:
                if error.refusal is not Refusal.GATED:
                    raise
                return ModelFacts(shape=_shape(None, files), gated=True)
        return ModelFacts(shape=_shape(_fetched(endpoint, repository, commit, token), files), gated=False)
    except HubError as error:
        if error.refusal in (Refusal.HIDDEN, Refusal.REVISION):
            return ModelFacts(missing=f"the Hub shows no {repository}: there is none, or it is private")
        return ModelFacts(gated=True if error.refusal is Refusal.GATED else None)
    except (httpx.HTTPError, ValueError, KeyError) as error:
        logger.info("nothing is known of the model: %s", type(error).__name__)
        return ModelFacts()


def _fetched(endpoint: str, repository: str, commit: str, token: str | None) -> bytes | None:
    url = f"{endpoint.rstrip('/')}/{repository}/resolve/{quote(commit)}/config.json"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = httpx.get(url, headers=headers, timeout=PATIENCE, follow_redirects=True)
    return answer.content if answer.status_code == 200 and len(answer.content) <= MOST_CONFIG else None


def _shape(config: bytes | None, files: dict[str, int]) -> ModelShape | None:
    weights = next(
        (total for ending in WEIGHTS if (total := sum(size for path, size in files.items() if path.endswith(ending)))),
        None,
    )
    document: Any = None
    if config is not None:
        try:
            document = json.loads(config)
        except ValueError:
            document = None
    if isinstance(document, dict):
        return shape_of(document, weights)
    return ModelShape(weight_bytes=weights) if weights else None
