"""What a cluster is made of, as last verified."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import streamlit as st

from contracts.cluster import ClusterRecord
from contracts.dependencies import COMPONENTS, ComponentState
from contracts.network import Network
from ui.cluster_header import status_badge
from ui.links import page_link
from ui.problems import escaped

_TITLES = {component.name: component.title for component in COMPONENTS}
_UNKNOWN = "zone not recorded"


def network_part(record: ClusterRecord) -> None:
    """The VPC, and its subnets by zone."""
    st.markdown("#### Network")
    network = record.network
    if network is None:
        st.caption("There is none yet.")
        return
    whose = "made for this cluster" if network.owned else "reused: it is never deleted from here"
    st.markdown(
        f"VPC `{network.vpc_id}` {escaped(', '.join(network.vpc_cidrs))} — {whose}. "
        f"Services take their addresses from {escaped(network.service_cidr)}."
    )
    zones = _by_zone(network)
    for cell, (zone, subnets) in zip(st.columns(max(1, len(zones))), zones.items(), strict=False):
        with cell.container(border=True):
            st.markdown(f":material/location_on: **{escaped(zone)}**")
            for role, identifier, said in subnets:
                st.markdown(f"{role}  \n`{identifier}`" + (f" :gray[{escaped(said)}]" if said else ""))
    others = {
        "Security group": network.security_group_id,
        "Internet gateway": network.internet_gateway_id,
        "S3 endpoint": network.s3_endpoint_id,
    }
    st.caption(" · ".join(f"{name} {f'`{value}`' if value else 'none'}" for name, value in others.items()))


def _by_zone(network: Network) -> dict[str, list[tuple[str, str, str]]]:
    """Role, ID and what else is known of every subnet and NAT gateway, by zone."""
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for zone in network.zones:
        found[zone] = []
    for zone, identifier in _placed(network, network.public_subnet_ids):
        found[zone].append((":material/public: Public", identifier, ""))
    for gateway in network.nat_gateways:
        found[gateway.zone].append((":material/output: NAT gateway", gateway.nat_gateway_id, ""))
    for zone, identifier in _placed(network, network.control_plane_subnet_ids):
        found[zone].append((":material/dns: Control plane", identifier, ""))
    for subnet in network.compute_subnets:
        found[subnet.zone].append((":material/memory: Compute", subnet.subnet_id, subnet.cidr))
    return dict(sorted(found.items()))


def _placed(network: Network, subnets: list[str]) -> Iterator[tuple[str, str]]:
    """Subnets of one role, which the record keeps in the order of its zones."""
    for number, identifier in enumerate(subnets):
        yield (network.zones[number] if number < len(network.zones) else _UNKNOWN), identifier


def control_plane_part(record: ClusterRecord) -> None:
    """The EKS cluster."""
    st.markdown("#### Control plane")
    plane = record.control_plane
    if plane is None:
        st.caption("There is none yet.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"`{plane.name}`")
        status_badge(plane.status)
    api = f"`{plane.endpoint}`" if plane.endpoint else "no endpoint known"
    st.caption(f"Kubernetes {escaped(plane.kubernetes_version)} · {api}")


def dependencies_part(record: ClusterRecord) -> None:
    """Add-ons and the Helm release."""
    st.markdown("#### Dependencies")
    if not record.dependencies:
        st.caption("None are recorded.")
        return
    not_ready = [each for each in record.dependencies if each.state is not ComponentState.READY]
    if not_ready:
        names = ", ".join(f"{escaped(each.name)} ({each.state.value.replace('_', ' ')})" for each in not_ready)
        st.warning(f"Not ready: {names}", icon=":material/pending:")
    _table(
        "Dependencies",
        [
            {
                "Component": _TITLES.get(each.name, each.name).partition(" (")[0],
                "State": each.state.value.replace("_", " "),
                "Version": each.version or "",
                "Detail": each.detail or "",
            }
            for each in record.dependencies
        ],
    )


def hyperpod_part(record: ClusterRecord) -> None:
    """The HyperPod cluster and its groups."""
    st.markdown("#### HyperPod")
    hyperpod = record.hyperpod
    if hyperpod is None:
        st.caption("There is none yet.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"`{hyperpod.name}`")
        status_badge(hyperpod.status)
        if hyperpod.provisioning:
            st.caption(f"{escaped(hyperpod.provisioning)} provisioning")
    if hyperpod.failure:
        st.error(escaped(hyperpod.failure), icon=":material/error:")
    ready = {count.group: count.ready for count in record.counts}
    _table(
        "Instance groups",
        [
            {
                "Instance group": group.name,
                "Type": group.instance_type,
                "Instances": f"{group.current} of {group.target}, {ready.get(group.name, 0)} ready",
                "Capacity": group.capacity,
                "Status": group.status,
            }
            for group in hyperpod.groups
        ],
    )
    with st.container(horizontal=True):
        page_link("capacity", "Capacity", ":material/memory:", cluster=record.tag)
        page_link("nodes", "Nodes", ":material/dns:", cluster=record.tag)
        page_link("features", "Features", ":material/toggle_on:", cluster=record.tag)


def access_tab(record: ClusterRecord) -> None:
    """IDs and ARNs to copy, and how to reach the Kubernetes API."""
    plane, network, identity, hyperpod = record.control_plane, record.network, record.identity, record.hyperpod
    if plane is not None:
        st.markdown("**kubectl** — with AWS credentials of a principal that has an access entry")
        st.code(f"aws eks update-kubeconfig --region {record.region} --name {plane.name}", language="bash")
    given: dict[str, dict[str, str | None]] = {
        "Clusters": {
            "EKS cluster": plane.arn if plane else None,
            "Kubernetes API": plane.endpoint if plane else None,
            "OIDC issuer": plane.oidc_issuer if plane else None,
            "HyperPod cluster": hyperpod.arn if hyperpod else None,
        },
        "Identity": {
            "Account": identity.account if identity else None,
            "Platform's principal": identity.platform_principal_arn if identity else None,
            "Control plane's role": identity.cluster_role_arn if identity else None,
            "Nodes' role": identity.execution_role_arn if identity else None,
            "Bucket": identity.bucket if identity else None,
            "Lifecycle scripts": identity.lifecycle_scripts_uri if identity else None,
        },
        "Network": {
            "VPC": network.vpc_id if network else None,
            "Security group": network.security_group_id if network else None,
            "EKS security group": plane.cluster_security_group_id if plane else None,
        },
    }
    if not any(value for part in given.values() for value in part.values()):
        st.info("Nothing has been made yet that has an ID.", icon=":material/hourglass_empty:")
    for title, values in given.items():
        known = {name: value for name, value in values.items() if value}
        if known:
            st.markdown(f"#### {title}")
        for name, value in known.items():
            label, text = st.columns([1, 4], vertical_alignment="center")
            label.markdown(name)
            text.code(value, language=None)


def _table(title: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        st.caption("None.")
        return
    st.dataframe(rows, hide_index=True, height="content" if len(rows) <= 12 else 460, alt=title)
