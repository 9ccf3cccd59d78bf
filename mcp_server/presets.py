"""Presets: training runs without a name, saved, versioned and shared."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, JsonValue, SkipValidation

from contracts import endpoints
from contracts.model import Model
from contracts.presets import PresetDetail, PresetList, SavedPreset
from mcp_server.arguments import PageSize, PageToken, given
from mcp_server.asker import Who
from mcp_server.asking import Sure
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.TRAINING)

PresetName = Annotated[SkipValidation[str], Field(description="Name of the preset, e.g. llama-8b-sft.")]
Upon = Annotated[
    SkipValidation[int | None],
    Field(description="The last version that you have seen: refused where there is a newer one. 0: there is none yet."),
]

_NAMED = {"/name": "/preset"}


class PresetGone(Model):
    """What is not there any more."""

    preset: str


@tools.tool("List presets", endpoints.LIST_PRESETS)
async def preset_list(who: Who, page_size: PageSize = None, page_token: PageToken = None) -> PresetList:
    """Saved training runs that you may begin with: your own, and those that others share.

    Use it before training_submit where the user speaks of a saved or usual configuration.
    """
    return await who.get(endpoints.LIST_PRESETS, page_size=page_size, page_token=page_token)


@tools.tool("Get a preset", endpoints.GET_PRESET)
async def preset_get(
    who: Who,
    preset: PresetName,
    version: Annotated[SkipValidation[int | None], Field(description="Absent: the last.")] = None,
) -> PresetDetail:
    """One version of a preset with the whole run that it holds, and why that is no valid run any more, if so.

    Use it to show the user what training_submit with this `preset` would begin with.
    """
    return await who.get(endpoints.GET_PRESET, name=preset, version=version, places=_NAMED)


@tools.tool("Save a preset", endpoints.SAVE_PRESET)
async def preset_save(
    who: Who,
    preset: PresetName,
    document: Annotated[
        SkipValidation[dict[str, JsonValue]],
        Field(description="A training run without its name, e.g. `spec` of training_get or operation_get_spec."),
    ],
    comment: Annotated[SkipValidation[str | None], Field(description="What is new in it.")] = None,
    shared: Annotated[
        SkipValidation[bool | None],
        Field(description="true: everybody may load it. Absent: as it was, at first only its owner."),
    ] = None,
    upon_version: Upon = None,
) -> SavedPreset:
    """Keep a training run's configuration as a new version of a preset. What is equal to the last version makes none.

    Use it when the user wants to run something again later, or share it. It is checked as a run is, and holds names of
    credentials only. Done when it answers; older versions stay.
    """
    body = given(document=document, comment=comment, shared=shared)
    return await who.get(
        endpoints.SAVE_PRESET, body, name=preset, headers=_upon(upon_version), places={**_NAMED, **_IF}
    )


@tools.tool("Delete a preset", endpoints.DELETE_PRESET, destroys=True)
async def preset_delete(who: Who, sure: Sure, preset: PresetName, upon_version: Upon = None) -> PresetGone:
    """Forget a preset with all its versions. Runs that were made from it stay what they are. Done when it answers.

    Use it only when the user has named the preset.
    """
    await who.get(endpoints.DELETE_PRESET, name=preset, headers=_upon(upon_version), places={**_NAMED, **_IF})
    return PresetGone(preset=preset)


_IF = {"/If-Match": "/upon_version", "/If-None-Match": "/upon_version"}


def _upon(version: Any) -> dict[str, str]:
    """The request's condition (RFC 9110)."""
    if version is None:
        return {}
    return {"If-None-Match": "*"} if version == 0 and version is not False else {"If-Match": f'"{version}"'}
