"""What answers on a cluster: model servers, managed endpoints, pools, routers, autoscalers; and talking to them."""

from __future__ import annotations

from ui.serving_autoscalers import autoscalers_tab
from ui.serving_deploy import deploy_tab
from ui.serving_deployments import deployments_tab
from ui.serving_endpoints import endpoints_tab
from ui.serving_playground import playground_tab
from ui.serving_pools import pools_tab
from ui.serving_routers import routers_tab
from ui.serving_services import services_tab
from ui.tabs import Tab, tabbed_page

_TABS: dict[str, Tab] = {
    "Deployments": deployments_tab,
    "Deploy": deploy_tab,
    "Managed endpoints": endpoints_tab,
    "Model pools": pools_tab,
    "Routers": routers_tab,
    "Autoscalers": autoscalers_tab,
    "Services": services_tab,
    "Playground": playground_tab,
}


def page() -> None:
    """Draw the page."""
    tabbed_page("Serving", _TABS)
