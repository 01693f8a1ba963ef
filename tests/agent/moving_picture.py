"""The moving picture of the README: `python -m tests.agent.moving_picture` writes docs/page/live.webp.

A view's rows while prices change, then a chart of another view. Frames are taken after each change, so the
picture does not depend on the speed of the machine.
"""

from __future__ import annotations

import io
import random

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import sparqlive
from sparqlive.agent.agent import Agent
from tests.agent.conftest import serving
from tests.agent.page.browsing import OPTIONS
from tests.agent.screenshots import PICTURES, PLACES, change, fill, update
from tests.peers import chromium

WIDTH, HEIGHT = 900, 520
FRAMES = 16
MILLISECONDS = 450


def frames(page: Page, session: sparqlive.Session, address: str, name: str) -> list[Image.Image]:
    """Pictures of a place, one after each change."""
    place, sign = PLACES[name]
    page.goto(f"{address}/{place}")
    page.locator(sign).first.wait_for()
    chance, taken = random.Random(7), []
    for number in range(FRAMES):
        if number % 3 == 1:
            price = chance.randint(5, 50)
            product = f":p{chance.randrange(49)}"
            update(
                session,
                f"DELETE WHERE {{ {product} :price ?old }} ; INSERT DATA {{ {product} :price {price} }}",
            )
        elif number % 3 == 0:
            change(session, chance)
        page.wait_for_timeout(250)
        taken.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    return taken


def main() -> None:
    with (
        sparqlive.open(default_graph="union") as session,
        serving(Agent(session)) as address,
        sync_playwright() as playwright,
    ):
        fill(session, random.Random(4))
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.set_default_timeout(300_000)
        first, *others = [
            frame for name in ("rows", "chart") for frame in frames(page, session, address, name)
        ]
        browser.close()
    first.save(
        PICTURES / "live.webp",
        save_all=True,
        append_images=others,
        duration=MILLISECONDS,
        loop=0,
        quality=70,
        method=6,
    )


if __name__ == "__main__":
    main()
