"""No member of a described group is lost on its way back: checked against botocore's own model."""

from __future__ import annotations

import string
from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest
from botocore.model import ListShape, MapShape, Shape, StructureShape
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from activities.hyperpod import translator
from activities.hyperpod.translator import restricted_specification_of, specification_of

MODEL = botocore.session.get_session().get_service_model("sagemaker")
IMAGES = {"ami-0123456789abcdef0", "ami-0fedcba9876543210"}
PAIRS = {
    "InstanceRequirements": ("ClusterInstanceRequirementDetails", "ClusterInstanceRequirements"),
    "KubernetesConfig": ("ClusterKubernetesConfigDetails", "ClusterKubernetesConfig"),
    "AutoPatchConfig": ("ClusterAutoPatchConfigDetails", "ClusterAutoPatchConfig"),
    "SlurmConfig": ("ClusterSlurmConfigDetails", "ClusterSlurmConfig"),
    "NetworkInterface": ("ClusterNetworkInterfaceDetails", "ClusterNetworkInterface"),
    "EnvironmentConfig": ("EnvironmentConfigDetails", "EnvironmentConfig"),
}


def members(name: str) -> dict[str, Shape]:
    shape = MODEL.shape_for(name)
    assert isinstance(shape, StructureShape)
    return dict(shape.members)


def test_every_member_of_a_group_is_sent_or_left_out_with_a_reason() -> None:
    described = {*translator.SAME, *translator.TRANSLATED, *translator.STATE}
    assert described == set(members("ClusterInstanceGroupDetails"))
    sent = {*translator.SAME, *translator.TRANSLATED.values(), *translator.NEVER_SENT}
    assert sent == set(members("ClusterInstanceGroupSpecification"))


def test_every_member_of_a_restricted_group_is_sent_or_left_out_with_a_reason() -> None:
    described = {*translator.RESTRICTED_SAME, *translator.RESTRICTED_TRANSLATED, *translator.RESTRICTED_STATE}
    assert described == set(members("ClusterRestrictedInstanceGroupDetails"))
    sent = {*translator.RESTRICTED_SAME, *translator.RESTRICTED_TRANSLATED.values()}
    assert sent == set(members("ClusterRestrictedInstanceGroupSpecification"))


@pytest.mark.parametrize("part", PAIRS)
def test_every_member_of_a_part_is_sent_or_left_out_with_a_reason(part: str) -> None:
    details, specification = PAIRS[part]
    assert {*translator.PARTS[part], *translator.PART_STATE.get(part, ())} == set(members(details))
    assert set(translator.PARTS[part].values()) == set(members(specification))


def test_what_is_sent_as_described_has_one_shape_on_both_sides() -> None:
    for kind, names in (("", translator.SAME), ("Restricted", translator.RESTRICTED_SAME)):
        described = members(f"Cluster{kind}InstanceGroupDetails")
        sent = members(f"Cluster{kind}InstanceGroupSpecification")
        assert {name: described[name].name for name in names} == {name: sent[name].name for name in names}
    for part, (details, specification) in PAIRS.items():
        for there, here in translator.PARTS[part].items():
            shapes = members(details)[there].name, members(specification)[here].name
            assert len(set(shapes)) == 1 or shapes == ("ClusterPatchScheduleDetails", "ClusterPatchSchedule")


def values(shape: Shape, name: str = "") -> SearchStrategy[Any]:
    """Any value of a shape, within its bounds; strings are plain, as patterns are not the translator's concern."""
    bounds = shape.metadata
    match shape.type_name:
        case "structure":
            assert isinstance(shape, StructureShape)
            parts = {key: values(part, key) for key, part in shape.members.items() if key not in translator.NEVER_SENT}
            if getattr(shape, "is_tagged_union", False):
                return st.one_of(*(st.fixed_dictionaries({key: part}) for key, part in parts.items()))
            required = {key: part for key, part in parts.items() if key in shape.required_members}
            optional = {key: part for key, part in parts.items() if key not in required}
            return st.fixed_dictionaries(required, optional=optional)
        case "list":
            assert isinstance(shape, ListShape)
            low = bounds.get("min", 0)
            return st.lists(values(shape.member), min_size=low, max_size=max(low, min(bounds.get("max", 3), 3)))
        case "map":
            assert isinstance(shape, MapShape)
            return st.dictionaries(values(shape.key), values(shape.value), max_size=3)
        case "string":
            if name == "ImageId":
                return st.sampled_from(sorted(IMAGES))
            if enum := getattr(shape, "enum", None):
                return st.sampled_from(list(enum))
            low = bounds.get("min", 1)
            return st.text(string.ascii_lowercase, min_size=low, max_size=max(low, min(bounds.get("max", 8), 8)))
        case "integer":
            return st.integers(bounds.get("min", 0), bounds.get("max", 10**6))
        case "boolean":
            return st.booleans()
        case "timestamp":
            return st.just(datetime(2027, 1, 2, tzinfo=UTC))
    raise AssertionError(f"no values for {shape}")


def as_described(spec: dict[str, Any]) -> dict[str, Any]:
    """The group as the service would describe it while nothing of it changes, with everything that it adds."""
    shown = {key: value for key, value in spec.items() if key not in ("InstanceCount", "MinInstanceCount", "ImageId")}
    shown |= {
        "TargetCount": spec["InstanceCount"],
        "CurrentCount": 0,
        "TargetStateCount": 0,
        "Status": "InService",
        "CurrentImageId": "ami-99999999999999999",
        "DesiredImageId": spec.get("ImageId", "ami-99999999999999999"),
        "CurrentImageReleaseVersion": "1.0.1",
        "DesiredImageReleaseVersion": "1.0.2",
        "ActiveOperations": {"Scaling": 1},
    }
    if "MinInstanceCount" in spec:
        shown["MinCount"] = spec["MinInstanceCount"]
    if requirements := spec.get("InstanceRequirements"):
        types = requirements["InstanceTypes"]
        shown["InstanceRequirements"] = {"DesiredInstanceTypes": types, "CurrentInstanceTypes": types[:1]}
        shown["InstanceType"] = types[0]
    if "KubernetesConfig" in spec:
        kubernetes = spec["KubernetesConfig"]
        shown["KubernetesConfig"] = {
            "CurrentLabels": {"example.com/old": "1"} if "Labels" in kubernetes else None,
            "CurrentTaints": [{"Key": "old", "Effect": "NoSchedule"}] if "Taints" in kubernetes else None,
            **{f"Desired{key}": value for key, value in kubernetes.items()},
        }
    if patching := spec.get("AutoPatchConfig"):
        schedule = {"DesiredPatchSchedule": patching["PatchSchedule"]} if "PatchSchedule" in patching else {}
        shown["AutoPatchConfig"] = {k: v for k, v in patching.items() if k != "PatchSchedule"} | schedule
    return shown


def is_told(spec: dict[str, Any]) -> bool:
    """Exactly one way to name the type; and no part that says nothing, which is the same as none."""
    parts = ("KubernetesConfig", "NetworkInterface", "EnvironmentConfig")
    return ("InstanceType" in spec) != ("InstanceRequirements" in spec) and all(spec.get(p) != {} for p in parts)


@settings(max_examples=60, deadline=None)
@given(values(MODEL.shape_for("ClusterInstanceGroupSpecification")).filter(is_told))
def test_a_group_comes_back_as_it_was_made(spec: dict[str, Any]) -> None:
    described: Any = as_described(spec)
    assert specification_of(described, IMAGES) == spec


@settings(max_examples=25, deadline=None)
@given(values(MODEL.shape_for("ClusterRestrictedInstanceGroupSpecification")))
def test_a_restricted_group_comes_back_as_it_was_made(spec: dict[str, Any]) -> None:
    described: Any = {key: value for key, value in spec.items() if key != "InstanceCount"}
    described |= {"TargetCount": spec["InstanceCount"], "CurrentCount": 0, "Status": "Creating"}
    if "EnvironmentConfig" in spec:
        described["EnvironmentConfig"] = {**spec["EnvironmentConfig"], "S3OutputPath": "s3://sagemaker-x/out"}
    expected = {key: value for key, value in spec.items() if not (key == "EnvironmentConfig" and not value)}
    assert restricted_specification_of(described) == expected


def test_an_image_that_nobody_chose_is_not_pinned() -> None:
    described: Any = {"InstanceGroupName": "a", "TargetCount": 1, "DesiredImageId": "ami-0123456789abcdef0"}
    described |= {"DesiredImageReleaseVersion": "1.2.3"}
    assert not {"ImageId", "ImageReleaseVersion"} & set(specification_of(described))


def test_one_thread_per_core_stays_one() -> None:
    described: Any = {"InstanceGroupName": "a", "TargetCount": 1, "ThreadsPerCore": 1}
    assert specification_of(described)["ThreadsPerCore"] == 1
    flexible: Any = {"InstanceGroupName": "a", "TargetCount": 1, "InstanceTypeDetails": [{"ThreadsPerCore": 1}]}
    assert specification_of(flexible)["ThreadsPerCore"] == 1
