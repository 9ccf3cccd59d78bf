"""The history of experiments: runs, comparisons, tracking servers, and the ways to them."""

from __future__ import annotations

from ui.experiment_compare import compare_tab
from ui.experiment_links import connections_tab, sync_tab
from ui.experiment_runs import runs_tab
from ui.experiment_servers import servers_tab
from ui.tabs import Tab, tabbed_page

_TABS: dict[str, Tab] = {
    "Runs": runs_tab,
    "Compare": compare_tab,
    "Tracking servers": servers_tab,
    "Connections": connections_tab,
    "Copy": sync_tab,
}


def page() -> None:
    """Draw the page."""
    tabbed_page("Experiments", _TABS)
