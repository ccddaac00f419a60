"""Looks at a report as a reader does: one picture of each figure, on a page and on a phone, light and dark.

    python3 -m venv /tmp/shots && /tmp/shots/bin/pip install playwright    # and Debian's package `chromium`
    /tmp/shots/bin/python scripts/screenshots.py PAGE.html OUTDIR [--light] [--strict]

Exits 1 when the page says anything in the console or asks for anything from the network. What looks wrong is said too:
a page wider than the screen, text under 10 pixels on the phone, text that leaves its drawing or lies upon other text;
with --strict that is a failure as well. CHROMIUM names another browser than the one on the PATH.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

SIZES = {"page": (1280, 900), "phone": (390, 844)}
SMALLEST = 10.0
# Effective sizes of the texts that are shown, in pixels of the screen.
TEXTS = """() => [...document.querySelectorAll("figure svg text")]
  .filter((text) => text.getClientRects().length)
  .map((text) => [parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b),
                  text.textContent.trim()])"""
# Texts that leave their drawing, and texts that lie upon each other.
CLIPPED = """() => [...document.querySelectorAll("figure > svg")].filter((svg) => svg.getClientRects().length).flatMap((svg) => {
  const outer = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll("text")].map((text) => [text.getBoundingClientRect(), text]);
  const where = svg.closest("figure").querySelector("h3").textContent;
  const out = boxes.filter(([box]) => box.left < outer.left - 2 || box.right > outer.right + 2 ||
                                      box.top < outer.top - 2 || box.bottom > outer.bottom + 2)
    .map(([, text]) => `${where}: '${text.textContent.trim()}' leaves the drawing`);
  const over = [];
  boxes.forEach(([a, one], index) => boxes.slice(index + 1).forEach(([b, other]) => {
    if (one.hasAttribute("transform") || other.hasAttribute("transform")) return;
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 2 && high > 5) over.push(`${where}: '${one.textContent.trim()}' lies upon '${other.textContent.trim()}'`);
  }));
  return [...out, ...over];
})"""


def main(page_path: Path, out: Path, schemes: list[str], strict: bool) -> int:
    out.mkdir(parents=True, exist_ok=True)
    browser_path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    faults: list[str] = []
    ugly: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for size, (width, height) in SIZES.items():
            for scheme in schemes:
                look(browser, page_path, out, f"{size}-{scheme}", (width, height), scheme, faults, ugly)
        browser.close()
    for fault in faults + ugly:
        print(fault, file=sys.stderr)
    return 1 if faults or (strict and ugly) else 0


def look(browser, page_path, out, name, size, scheme, faults, ugly):
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, device_scale_factor=2
    )
    page = context.new_page()
    own = page_path.resolve().as_uri()
    page.on("console", lambda message: faults.append(f"{name}: console: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"{name}: error: {error}"))
    page.on("request", lambda request: faults.append(f"{name}: request: {request.url}")
            if request.url != own and not request.url.startswith("data:") else None)
    page.goto(own)
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > size[0]:
        ugly.append(f"{name}: the page is {wide} pixels wide on a screen of {size[0]}")
    if name.startswith("phone"):
        small = [(round(pixels, 1), text) for pixels, text in page.evaluate(TEXTS) if pixels < SMALLEST]
        ugly.extend(f"{name}: text of {pixels} pixels: {text}" for pixels, text in small)
    ugly.extend(f"{name}: {fault}" for fault in page.evaluate(CLIPPED))
    figures = page.locator("figure").all()
    for index, figure in enumerate(figures):
        title = figure.locator("h3").first.inner_text()
        slug = re.sub(r"\W+", "-", title).strip("-").lower()[:40]
        figure.screenshot(path=out / f"{name}-{index:02}-{slug}.png")
    print(f"{name}: {len(figures)} figures")
    context.close()


if __name__ == "__main__":
    options = {argument for argument in sys.argv[1:] if argument.startswith("--")}
    arguments = [argument for argument in sys.argv[1:] if argument not in options]
    if len(arguments) != 2 or options - {"--light", "--strict"}:
        sys.exit(__doc__)
    schemes = ["light"] if "--light" in options else ["light", "dark"]
    sys.exit(main(Path(arguments[0]), Path(arguments[1]), schemes, "--strict" in options))
