"""All that can be asked of a cluster, and how often which of it is drawn."""

from __future__ import annotations

from random import Random

from tests.chaos import wishes, workloads
from tests.chaos.wishes import Draft, Entry, Plan

MENU: tuple[tuple[int, Entry], ...] = (
    (6, wishes.add_group),
    (6, wishes.scale_group),
    (3, wishes.update_group),
    (6, wishes.delete_group),
    (2, wishes.on_node("reboot-nodes", "reboot")),
    (3, wishes.on_node("replace-nodes", "replace")),
    (6, wishes.delete_node),
    (4, workloads.features),
    (3, wishes.create_storage),
    (5, wishes.create_fsx),
    (3, wishes.delete_storage),
    (4, workloads.create_deployment),
    (6, workloads.scale_deployment),
    (6, workloads.update_deployment),
    (5, workloads.delete_deployment),
    (8, workloads.create_router),
    (6, workloads.delete_router),
    (10, workloads.create_autoscaler),
    (8, workloads.delete_autoscaler),
    (10, workloads.create_endpoint),
    (8, workloads.update_endpoint),
    (6, workloads.delete_endpoint),
    (3, workloads.create_pool),
    (6, workloads.scale_pool),
    (6, workloads.assign_pool),
    (5, workloads.delete_pool),
    (8, workloads.train),
    (6, workloads.train_on_ray),
    (2, workloads.train_on_sagemaker),
    (8, workloads.ray),
    (6, workloads.delete_ray),
    (3, wishes.create_node_group),
    (6, wishes.scale_node_group),
    (6, wishes.delete_node_group),
    (12, wishes.create_node_pool),
    (8, wishes.delete_node_pool),
    (2, wishes.store_credential),
    (3, wishes.delete_credential),
    (1, wishes.download),
    (1, workloads.create_server),
    (5, workloads.delete_server),
    (10, workloads.connect),
    (6, workloads.disconnect),
    (1, wishes.plain("verify-cluster", "/verification")),
    (1, wishes.plain("verify-access", "/access")),
    (1, wishes.plain("install-dependencies", "/dependencies")),
    (1, wishes.plain("redetect-cluster", "/redetection")),
    (1, wishes.plain("update-software", "/software")),
)
"""Weights and entries."""

FOUNDATIONS = (
    (),
    ("training_operator", "kuberay"),
    ("keda", "metrics_server"),
    ("keda", "metrics_server", "training_operator"),
    ("inference_operator",),
    ("autoscaling", "training_operator"),
)
"""Features that a cluster may begin with."""
FIRST: tuple[Entry, ...] = (workloads.create_deployment, wishes.add_group, workloads.create_server)
"""What others build on."""
LATER: tuple[Entry, ...] = (
    workloads.create_router,
    workloads.create_autoscaler,
    workloads.create_endpoint,
    workloads.update_endpoint,
    workloads.connect,
    workloads.train_on_ray,
    workloads.ray,
    workloads.scale_deployment,
    workloads.update_deployment,
    wishes.create_node_pool,
    wishes.delete_node_pool,
    wishes.scale_node_group,
    workloads.delete_router,
    workloads.delete_autoscaler,
    workloads.delete_endpoint,
    workloads.delete_ray,
    workloads.disconnect,
    workloads.delete_server,
)
"""What needs something that was asked for before, and would hardly ever be drawn from the whole menu."""


def foundation(dice: Random, plan: Plan) -> list[Draft]:
    """What a cluster begins with: features, and something that others can build on, or either, or nothing."""
    chosen = dice.choice(FOUNDATIONS)
    drafts = [workloads.switched(plan, list(chosen), set())] if chosen else []
    first = dice.choice(FIRST)(dice, plan) if dice.random() < 0.6 else None
    return [*drafts, first] if first is not None else drafts


def draw(dice: Random, plan: Plan) -> Draft:
    """One operation that the cluster can have now."""
    if dice.random() < 0.6:
        for entry in dice.sample(LATER, len(LATER)):
            if (draft := entry(dice, plan)) is not None:
                return draft
    weights, entries = [weight for weight, _ in MENU], [entry for _, entry in MENU]
    while True:
        [entry] = dice.choices(entries, weights)
        if (draft := entry(dice, plan)) is not None:
            return draft
