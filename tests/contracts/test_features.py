"""What features consist of, in which order they are switched, and what they are from what their parts are."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from contracts.feature_catalogue import (
    DEFINITIONS,
    dependents,
    planned,
    predecessors,
    status_of,
    tiered_checkpointing_warnings,
    training_conflicts,
    with_needs,
)
from contracts.features import (
    Feature,
    FeatureChanges,
    FeatureOptions,
    FeatureState,
    PartKind,
    PartSight,
    PartState,
    Toggle,
)

NEEDS = (Feature.LOAD_BALANCER_CONTROLLER, Feature.FSX_CSI, Feature.KEDA, Feature.METRICS_SERVER)


def changes(**features: object) -> FeatureChanges:
    prerequisites = bool(features.pop("enable_prerequisites", False))
    body = {name: {"enabled": on} for name, on in features.items()}
    return FeatureChanges.model_validate({**body, "enable_prerequisites": prerequisites})


def sights(feature: Feature, **states: PartState) -> list[PartSight]:
    """Every part present, but those whose kind is named."""
    return [
        PartSight(part=part, state=states.get(part.kind.name.lower(), PartState.PRESENT))
        for part in DEFINITIONS[feature].parts
    ]


def test_every_feature_has_a_definition_and_parts_that_are_told_apart() -> None:
    assert set(DEFINITIONS) == set(Feature)
    for each in DEFINITIONS.values():
        keys = [part.key for part in each.parts]
        assert len(set(keys)) == len(keys)
        assert sorted(part.key for part in each.removal) == sorted(keys)


def test_definitions_go_after_what_brought_them_and_all_else_in_reverse() -> None:
    kinds = [part.kind for part in DEFINITIONS[Feature.KEDA].removal]
    assert kinds == [
        PartKind.RELEASE,
        PartKind.DEFINITIONS,
        PartKind.POD_IDENTITY,
        PartKind.ROLE,
        PartKind.NAMESPACE,
    ]


def test_changes_must_name_a_feature() -> None:
    with pytest.raises(ValidationError, match="name at least one feature"):
        FeatureChanges.model_validate({"enable_prerequisites": True})


def test_prerequisites_come_along_only_when_asked() -> None:
    alone = planned(changes(inference_operator=True))
    assert alone == {Feature.INFERENCE_OPERATOR: True}
    together = planned(changes(inference_operator=True, enable_prerequisites=True))
    assert list(together) == [*NEEDS, Feature.INFERENCE_OPERATOR]
    assert predecessors(Feature.INFERENCE_OPERATOR, together) == list(NEEDS)
    assert predecessors(Feature.KEDA, together) == []


def test_what_needs_another_goes_first_when_both_are_switched_off() -> None:
    plan = planned(changes(keda=False, inference_operator=False, kuberay=True))
    assert plan == {Feature.INFERENCE_OPERATOR: False, Feature.KEDA: False, Feature.KUBERAY: True}
    assert predecessors(Feature.KEDA, plan) == [Feature.INFERENCE_OPERATOR]
    assert predecessors(Feature.INFERENCE_OPERATOR, plan) == []
    assert dependents(Feature.KEDA) == [Feature.INFERENCE_OPERATOR]
    assert with_needs([Feature.KUBERAY]) == [Feature.KUBERAY]


def test_a_feature_is_on_only_when_every_part_works() -> None:
    feature = Feature.FSX_CSI
    assert status_of(feature, sights(feature)).state is FeatureState.ON
    assert status_of(feature, sights(feature, addon=PartState.CHANGING)).state is FeatureState.CHANGING
    partly = status_of(feature, sights(feature, addon=PartState.ABSENT))
    assert (partly.state, partly.detail) == (FeatureState.DEGRADED, "EKS add-on aws-fsx-csi-driver is missing")
    none = status_of(feature, sights(feature, addon=PartState.ABSENT, role=PartState.ABSENT))
    assert none.state is FeatureState.OFF


def test_what_cannot_be_read_is_never_off() -> None:
    feature = Feature.FSX_CSI
    blind = status_of(feature, sights(feature, addon=PartState.UNKNOWN, role=PartState.ABSENT))
    assert blind.state is FeatureState.UNKNOWN


def test_somebody_elses_installation_is_foreign_unless_ours_is_there_too() -> None:
    feature = Feature.KUBERAY
    absent = {"release": PartState.ABSENT, "definitions": PartState.ABSENT, "namespace": PartState.ABSENT}
    other = "Deployment ray/kuberay-operator, which others installed"
    assert status_of(feature, sights(feature, **absent), other).state is FeatureState.FOREIGN
    assert status_of(feature, sights(feature), other).state is FeatureState.ON


def test_an_optional_part_is_not_missed() -> None:
    feature = Feature.TRAINING_OPERATOR
    assert status_of(feature, sights(feature, definitions=PartState.ABSENT)).state is FeatureState.ON


def test_options_are_what_is_asked_beside_on_or_off() -> None:
    spec = FeatureChanges.model_validate({"tiered_checkpointing": {"enabled": True, "memory_percentage": 30}})
    options = FeatureOptions.of(spec.named[Feature.TIERED_CHECKPOINTING])
    assert options == FeatureOptions(memory_percentage=30)
    assert FeatureOptions.of(Toggle(enabled=True)) == FeatureOptions()


def test_what_excludes_each_other_in_training() -> None:
    assert tiered_checkpointing_warnings([]) == []
    assert "spots" in tiered_checkpointing_warnings(["spots"])[0]
    assert len(training_conflicts(checkpointless=True, tiered_checkpointing=True, elastic=True)) == 2
    assert training_conflicts(checkpointless=False, tiered_checkpointing=True, elastic=True) == []
