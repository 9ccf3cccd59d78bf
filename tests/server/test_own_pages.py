"""Other sites' pages neither speak to the console nor show it."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import Client as Temporal
from temporalio.worker import Worker
from websockets.exceptions import InvalidStatus

from tests.server.conftest import Served, drawn, serving


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://127.0.0.1:1", "http://localhost:{port}", "null", "http://127.0.0.1"]
)
async def test_a_page_of_another_origin_opens_no_connection(everything: Served, origin: str) -> None:
    port = everything.url.rpartition(":")[2]
    with pytest.raises(InvalidStatus) as refused:
        await everything.page(await everything.session(), origin.format(port=port))
    assert refused.value.response.status_code == 403


async def test_a_page_of_the_console_does(everything: Served) -> None:
    async with everything.page(await everything.session(), everything.url) as page:
        await drawn(page, "operator-1")


async def test_nobody_who_has_not_signed_in_sees_more_than_how_to(everything: Served) -> None:
    async with everything.page(None, everything.url) as page:
        await drawn(page, "You are not signed in")


async def test_no_other_site_shows_the_console_in_a_frame(everything: Served) -> None:
    async with everything.http() as http:
        for path in ("/", "/signin", "/overview"):
            headers = (await http.get(path)).headers
            assert "frame-ancestors 'self'" in headers["content-security-policy"]
            assert headers["x-frame-options"] == "SAMEORIGIN"
            assert headers["x-content-type-options"] == "nosniff"


async def test_without_authentication_a_name_that_leads_here_shows_nothing(
    temporal: Temporal, worker: Worker, tmp_path: Path
) -> None:
    async with serving(tmp_path, temporal, "api,console", AUTH="off") as served:
        port = served.url.rpartition(":")[2]
        async with served.page(None, served.url) as page:
            await drawn(page, "local")
        # A site whose name was turned to a loopback address: its pages are of one origin with what they ask.
        async with served.page(None, f"http://evil.example:{port}", "evil.example") as page:
            await drawn(page, "authentication is off")
