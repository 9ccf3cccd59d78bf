"""``instantstart options``: what a cluster can be made of now."""

from __future__ import annotations

from typing import Any

import click

from cli.options import output_option


@click.command()
@click.option("--region", help="AWS region.  [default: the deployment's]")
@click.option("--instance-type", "instance_types", multiple=True, help="Only this type; may be repeated.")
@output_option
def options(region: str | None, instance_types: tuple[str, ...], output: str) -> None:
    """Show instance types, zones, quotas and training plans, as the account has them now."""
    from cli.gateway import connect
    from cli.output import emit

    found = connect().get("/options", region=region, instance_type=list(instance_types) or None)
    emit(output, found, options_lines)


def options_lines(found: dict[str, Any]) -> list[str]:
    from cli.output import columns

    types = (
        (
            each["instance_type"],
            f"{each['accelerators']} x {each['accelerator']}" if each.get("accelerator") else None,
            each["vcpus"],
            f"{each['memory_gib']:g}",
            each.get("efa_interfaces", 0),
            "unknown" if each.get("quota") is None else each["quota"],
            ", ".join(each["availability_zones"]),
        )
        for each in found["instance_types"]
    )
    headers = ("INSTANCE TYPE", "ACCELERATORS", "VCPUS", "GIB", "EFA", "QUOTA", "ZONES")
    lines = columns(headers, types)
    plans = [
        (
            each["name"],
            each["instance_type"],
            each["availability_zone"],
            f"{each['available']} of {each['total']}",
            each["status"],
            each.get("ends_at"),
        )
        for each in found["training_plans"]
    ]
    if plans:
        lines += ["", *columns(("TRAINING PLAN", "INSTANCE TYPE", "ZONE", "AVAILABLE", "STATUS", "ENDS"), plans)]
    lines += ["", f"Kubernetes versions: {', '.join(found['kubernetes_versions'])}"]
    return [*lines, f"Looked up in {found['region']} at {found['looked_up_at']}"]
