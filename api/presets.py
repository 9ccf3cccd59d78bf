"""Presets of training runs: saved, versioned, shared, loaded."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from api import entities, pages
from api.auth import Reader, Starter
from api.operations import PageSize, PageToken, page_reply
from api.problems import ProblemError, parse, refuse, wrong_field
from api.rows import Row
from api.services import Parts, Services, reply
from contracts.access import Principal, Role
from contracts.names import KUBERNETES_NAME
from contracts.presets import (
    DELETE_PRESET,
    MEMO_PRESET,
    NAMELESS,
    PRESET_VERSION,
    PRESET_WORKFLOW,
    SAVE_PRESET,
    AskVersion,
    PresetAnswer,
    PresetDetail,
    PresetKind,
    PresetList,
    PresetState,
    PresetSummary,
    RemovePreset,
    SavedPreset,
    SavePreset,
    SaveVersion,
)
from contracts.problem import ProblemCode
from contracts.recipes import RECIPES
from contracts.training import TrainingSpec

router = APIRouter(prefix="/api/v1/presets", tags=["training"])

LISTED = f"WorkflowType = '{PRESET_WORKFLOW}' AND ExecutionStatus = 'Running'"

Name = Annotated[
    str,
    Path(
        description="The preset's name.",
        examples=["llama-8b-sft"],
        max_length=KUBERNETES_NAME.maximum,
        pattern=f"^{KUBERNETES_NAME.pattern}$",
    ),
]
Version = Annotated[int | None, Query(ge=1, description="Which version; the last without it.")]
OfKind = Annotated[PresetKind | None, Query(description="Only presets of this kind.")]
IfMatch = Annotated[
    str | None, Header(description="The version that the caller knows as the last one: 412 where there is a newer one.")
]
IfNoneMatch = Annotated[str | None, Header(description="``*``: only where there is no such preset yet.")]


@router.get("", operation_id="list_presets", response_model=PresetList, summary="List presets")
async def list_presets(
    services: Parts,
    principal: Reader,
    kind: OfKind = None,
    page_size: PageSize = 50,
    page_token: PageToken = None,
) -> Response:
    """The caller's own presets and those that are shared. A page may have fewer than were asked for."""
    listing = f"presets/{principal.name}/{kind or ''}"
    found = await services.temporal.list(LISTED, page_size, pages.unseal(listing, page_token))
    summaries = [await row.memo(MEMO_PRESET, PresetSummary) for row in found.rows]
    mine = [each for each in summaries if each is not None and _visible(each, principal)]
    following = pages.seal(listing, found.position) if found.position is not None else None
    chosen = sorted((each for each in mine if kind in (None, each.kind)), key=lambda each: each.name)
    return page_reply(PresetList(presets=chosen, next_page_token=following))


@router.get("/{name}", operation_id="get_preset", response_model=PresetDetail, summary="Get a preset")
async def get_preset(services: Parts, principal: Reader, name: Name, version: Version = None) -> Response:
    """One version of a preset, the last where none is named; and why it is no valid run any more, if so."""
    await _summary(services, principal, name)
    found = await entities.asked(
        services.temporal, _id(name), PRESET_VERSION, AskVersion(version=version), PresetAnswer
    )
    if found is None or found.summary is None:
        raise _unknown(name)
    if found.version is None:
        kept = f"versions {found.summary.oldest} to {found.summary.version} are kept"
        raise refuse(
            ProblemCode.NOT_FOUND,
            f"preset {name!r} has no version {version}; {kept}",
            field="/version",
            remedy=f"Load version {found.summary.version}, or none by number for the last.",
        )
    try:
        _checked(found.version.document)
        problem = None
    except ProblemError as error:
        problem = error.body.detail
    detail = PresetDetail(preset=found.summary, version=found.version, problem=problem)
    return reply(detail, headers=_tag(found.version.version))


@router.put("/{name}", operation_id="save_preset", response_model=SavedPreset, summary="Save a preset")
async def save_preset(
    request: Request,
    services: Parts,
    principal: Starter,
    name: Name,
    body: SavePreset,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Make a new version of a preset, or the first. What is equal to the last version makes none.

    The document is checked as a training run is, secrets included: a preset holds the names of credentials only. The
    last 20 versions are kept. A preset belongs to who saved it first; it is changed by its owner, where it is shared by
    operators too, and by administrators.
    """
    spec = _checked(body.document)
    asked = SaveVersion(
        name=name,
        kind=body.kind,
        document=_opened(body.document, spec),
        comment=body.comment,
        title=_title(spec),
        shared=body.shared,
        by=principal.name,
        may_change=_may_change(principal),
        may_see=principal.role is Role.ADMIN,
        expected=_expected(if_match, if_none_match),
    )
    saved = await entities.saved(
        services.temporal, PRESET_WORKFLOW, _id(name), PresetState(name=name), SAVE_PRESET, asked, SavedPreset
    )
    request.state.audit_detail = f"preset {name} version {saved.preset.version}"
    return reply(saved, headers=_tag(saved.preset.version))


@router.delete("/{name}", operation_id="delete_preset", status_code=204, summary="Delete a preset")
async def delete_preset(
    request: Request, services: Parts, principal: Starter, name: Name, if_match: IfMatch = None
) -> Response:
    """Forget a preset with all its versions. Runs that were made from it are what they are."""
    await _summary(services, principal, name)
    asked = RemovePreset(
        by=principal.name,
        may_change=_may_change(principal),
        may_see=principal.role is Role.ADMIN,
        expected=_expected(if_match, None),
    )
    try:
        await entities.told(services.temporal, _id(name), DELETE_PRESET, asked)
    except ProblemError as error:
        raise _unknown(name) if error.body.code is ProblemCode.NOT_FOUND else error from None
    request.state.audit_detail = f"preset {name}"
    return Response(status_code=204)


async def _summary(services: Services, principal: Principal, name: str) -> PresetSummary:
    """What is known of a preset without waking it. Raises ProblemError (404), also where it is not the caller's to
    see."""
    found = await services.temporal.find(_id(name))
    if found is None or found.close_time is not None:
        raise _unknown(name)
    row = Row.of(found.raw_description.workflow_execution_info, found.data_converter)
    summary = await row.memo(MEMO_PRESET, PresetSummary)
    if summary is None or not _visible(summary, principal):
        raise _unknown(name)
    return summary


def _visible(preset: PresetSummary, principal: Principal) -> bool:
    return preset.shared or preset.owner == principal.name or principal.role is Role.ADMIN


def _may_change(principal: Principal) -> bool:
    return principal.role in (Role.OPERATOR, Role.ADMIN)


def _checked(document: object) -> TrainingSpec:
    """The run that a preset would be. Raises ProblemError (422) with pointers into the body."""
    whole = {**document, "name": NAMELESS} if isinstance(document, dict) else document
    return parse(TrainingSpec, whole, "/document")


def _opened(document: dict[str, Any], spec: TrainingSpec) -> dict[str, Any]:
    """The document with its recipe's configuration as an object, whatever text it was: so that a part of it can be set
    when it is loaded, and what means the same is the same."""
    return {**document, "recipe": spec.recipe.model_dump(mode="json", exclude_unset=True)}


def _title(spec: TrainingSpec) -> str:
    title = RECIPES[spec.recipe.kind].title
    return f"{title} on {spec.nodes} × {spec.instance_types[0]}"


def _expected(if_match: str | None, if_none_match: str | None) -> int | None:
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise wrong_field("/If-None-Match", "only * is understood", "Send *, to make a preset that is new.")
        return 0
    if if_match is None or if_match.strip() == "*":
        return None
    found = re.fullmatch(r'(?:W/)?"?(\d{1,9})"?', if_match.strip())
    if found is None:
        raise wrong_field("/If-Match", f"{if_match[:60]!r} is no version", 'Send the preset\'s ETag, e.g. "3".')
    return int(found[1])


def _tag(version: int) -> dict[str, str]:
    return {"ETag": f'"{version}"', "Cache-Control": "no-cache"}


def _id(name: str) -> str:
    return f"{PRESET_WORKFLOW}/{name}"


def _unknown(name: str) -> ProblemError:
    return refuse(
        ProblemCode.NOT_FOUND,
        f"there is no preset {name!r} that you may load",
        field="/name",
        remedy="GET /api/v1/presets lists them; PUT there saves one.",
    )
