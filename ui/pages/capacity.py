"""What a cluster's nodes are made of: instance groups, EKS node groups, node pools, and their software."""

from __future__ import annotations

from ui.capacity_add import add_tab
from ui.capacity_groups import groups_tab
from ui.capacity_node_groups import node_groups_tab
from ui.capacity_node_pools import node_pools_tab
from ui.capacity_software import software_tab
from ui.tabs import Tab, tabbed_page

_TABS: dict[str, Tab] = {
    "Instance groups": groups_tab,
    "Add a group": add_tab,
    "EKS node groups": node_groups_tab,
    "Node pools": node_pools_tab,
    "Software": software_tab,
}


def page() -> None:
    """Draw the page."""
    tabbed_page("Capacity", _TABS)
