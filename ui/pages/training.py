"""Training on a cluster: runs, a form for a new one, presets, and Ray clusters for interactive work."""

from __future__ import annotations

from ui.tabs import Tab, tabbed_page
from ui.training_form import new_run_tab
from ui.training_presets import presets_tab
from ui.training_ray import ray_tab
from ui.training_runs import runs_tab

_TABS: dict[str, Tab] = {
    "Runs": runs_tab,
    "New run": new_run_tab,
    "Presets": presets_tab,
    "Ray clusters": ray_tab,
}


def page() -> None:
    """Draw the page."""
    tabbed_page("Training", _TABS)
