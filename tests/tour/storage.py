"""What is kept beside a cluster: claims, credentials, models."""

from __future__ import annotations

from contracts import endpoints
from sandbox.hub.repositories import MEMBER
from tests.tour.founding import TAG
from tests.tour.traveller import Traveller

HUB, WANDB = "hub", "wandb"
SMALL, GATED = "Qwen/Qwen3-0.6B", "meta-llama/Llama-3.1-8B-Instruct"


def claims(traveller: Traveller) -> None:
    given = {"tag": TAG}
    traveller.do(endpoints.CREATE_STORAGE, {"claim": "data", "prefix": "data/"}, **given)
    traveller.do(endpoints.CREATE_FSX_STORAGE, {"claim": "scratch", "create": {}}, **given)
    traveller.call(endpoints.LIST_STORAGE, **given)
    traveller.call(endpoints.GET_STORAGE_DEFAULTS, **given)
    traveller.call(endpoints.LIST_STORAGE_CONTENTS, claim="data", **given)
    traveller.do(endpoints.DELETE_STORAGE, claim="data", **given)
    traveller.do(endpoints.DELETE_STORAGE, path="file-system", claim="scratch", delete_file_system=True, **given)


def secrets(traveller: Traveller, secret: str) -> None:
    """A token of the Hub, and one of another service."""
    given = {"tag": TAG}
    traveller.do(endpoints.STORE_CREDENTIAL, {"token": MEMBER}, name=HUB, **given)
    traveller.do(endpoints.STORE_CREDENTIAL, {"token": secret}, name=WANDB, **given)
    traveller.call(endpoints.LIST_CREDENTIALS, **given)


def models(traveller: Traveller) -> None:
    given = {"tag": TAG}
    traveller.do(endpoints.DOWNLOAD_MODEL, {"repository": SMALL}, **given)
    traveller.do(endpoints.DOWNLOAD_MODEL, {"repository": GATED, "credential": HUB}, path="gated", **given)
    traveller.call(endpoints.LIST_MODELS, **given)
    listed = traveller.call(endpoints.LIST_JOBS, **given).jobs
    traveller.call(endpoints.GET_JOB, namespace=listed[0].namespace, name=listed[0].name, **given)


def forgotten(traveller: Traveller) -> None:
    """The token of the Hub, which nothing uses any more."""
    traveller.do(endpoints.DELETE_CREDENTIAL, tag=TAG, name=HUB)
