"""What a cluster's pods share: claims and what is in them, models and data sets, and tokens for other services."""

from __future__ import annotations

from ui.storage_claims import claims_tab
from ui.storage_contents import contents_tab
from ui.storage_credentials import credentials_tab
from ui.storage_models import models_tab
from ui.tabs import Tab, tabbed_page

_TABS: dict[str, Tab] = {
    "Claims": claims_tab,
    "Contents": contents_tab,
    "Models": models_tab,
    "Credentials": credentials_tab,
}


def page() -> None:
    """Draw the page."""
    tabbed_page("Storage and models", _TABS)
