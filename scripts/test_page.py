"""Opens the page of `gradus view` and the served page Look as a person does, in a real Chromium.

    python3 scripts/test_page.py FRAGMENT PAGE.html OUTDIR [axe.min.js]

FRAGMENT is the example of crates/view that prints fragments; a small server here answers with them as `gradus serve`
does, under the same content security policy. PAGE.html is a page of `gradus view`. Checked at 1280 and 390 pixels,
light and dark: no console message, no request elsewhere, nothing wider than the screen, mathematics drawn, keyboard,
filter, paste and score, models compared, files dropped, an error shown, a key asked for; with axe-core, no serious
finding. Pictures are left in OUTDIR. Exits 1 and says what is wrong.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

from playwright.sync_api import sync_playwright

POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
          "form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
SIZES = {"page": (1280, 900), "phone": (390, 844)}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"
KEY = "secret"
# Elements that reach past the right edge outside of what scrolls by itself.
CUT_OFF = """() => [...document.querySelectorAll("body *")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll, math, .skip, .formula"))
  .map((one) => one.outerHTML.slice(0, 120)).slice(0, 3)"""
faults: list[str] = []


class Fake(BaseHTTPRequestHandler):
    """Answers like the server of `gradus serve`, with fragments of made-up records."""

    fragment = ""
    wants_key = False
    asked: list[tuple[str, dict, str]] = []

    def log_message(self, *_):
        pass

    def answer(self, status: int, kind: str, body: bytes):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status: int, message: str):
        self.answer(status, "application/json", json.dumps({"error": {"message": message}}).encode())

    def do_GET(self):
        if self.path == "/v1/models":
            models = [{"id": "gradus-prm", "kind": "reward"}, {"id": HOSTILE, "kind": "reward"},
                      {"id": "writer", "kind": "generate"}]
            self.answer(200, "application/json", json.dumps({"object": "list", "data": models}).encode())
            return
        kinds = {"css": "text/css", "js": "text/javascript"}
        kind = kinds.get(self.path.rsplit(".", 1)[-1], "text/html") + "; charset=utf-8"
        self.answer(200, kind, made(self.fragment, "asset", self.path))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.wants_key and self.headers.get("Authorization") != f"Bearer {KEY}":
            self.refuse(401, "a key is needed")
            return
        url = urlparse(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        Fake.asked.append((url.path, query, body.decode()))
        if url.path == "/page/score" and "fail" in json.loads(body)["problem"]:
            self.refuse(422, f"the solution has no steps {HOSTILE}")
        else:
            what = "record" if url.path == "/page/score" else "records"
            self.answer(200, "text/html; charset=utf-8", made(self.fragment, what))


def made(fragment: str, *words: str) -> bytes:
    return subprocess.run([fragment, *words], check=True, capture_output=True).stdout


def expect(holds: bool, what: str):
    if not holds:
        faults.append(what)


def watch(page, name: str, own: str):
    page.on("console", lambda message: faults.append(f"{name}: console: {message.text}")
            if not allowed(message) else None)
    page.on("pageerror", lambda error: faults.append(f"{name}: error: {error}"))
    page.on("dialog", lambda dialog: (faults.append(f"{name}: a script ran: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: faults.append(f"{name}: request: {request.url}")
            if not request.url.startswith((own, "data:")) else None)


def allowed(message) -> bool:
    """A refused request is logged by the browser itself; these tests refuse some."""
    return "status of 4" in message.text


def checked(page, name: str, width: int, axe: str, out: Path):
    """What holds of every view."""
    wide = page.evaluate("document.documentElement.scrollWidth")
    expect(wide <= width, f"{name}: the page is {wide} pixels wide on a screen of {width}")
    for cut in page.evaluate(CUT_OFF):
        expect(False, f"{name}: cut off: {cut}")
    page.screenshot(path=out / f"{name}.png")
    # It takes seconds a page: a page in one theme, a phone in the other.
    if axe and ("-page-light" in name or "-phone-dark" in name):
        page.evaluate(axe)
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        for fault in found["violations"]:
            if fault["impact"] in ("serious", "critical"):
                faults.append(f"{name}: axe: {fault['id']}: {fault['nodes'][0]['html'][:160]}")


def one_file(page, name: str, path: Path, width: int, axe: str, out: Path):
    watch(page, name, path.resolve().as_uri())
    page.goto(path.resolve().as_uri())
    if name.startswith("made-up"):
        high = page.evaluate("document.querySelector('article math mfrac')?.getBoundingClientRect().height ?? 0")
        expect(high > 15, f"{name}: a fraction is {high} pixels high")
    checked(page, name, width, axe, out)
    focused = "document.activeElement.closest('article.record')?.id"
    page.keyboard.press("n")
    first = page.evaluate(focused)
    page.keyboard.press("n")
    second = page.evaluate(focused)
    expect(first and second and first != second, f"{name}: n went from {first} to {second}")
    page.keyboard.press("p")
    expect(page.evaluate(focused) == first, f"{name}: p did not go back")
    page.keyboard.press("j")
    row = page.evaluate("document.activeElement.id")
    page.keyboard.press("j")
    expect(row and page.evaluate("document.activeElement.id") != row, f"{name}: j stays at {row}")
    page.keyboard.press("k")
    expect(page.evaluate("document.activeElement.id") == row, f"{name}: k did not go back")
    page.keyboard.press("?")
    expect(page.locator("#help").is_visible(), f"{name}: ? shows no help")
    page.keyboard.press("Escape")
    if width < 800:
        page.locator(".contents > details > summary").click()
    page.keyboard.press("/")
    page.keyboard.type("no record has this text")
    expect(page.locator("article.record:visible").count() == 0, f"{name}: the filter filters nothing")
    page.locator(".filters input").fill("")
    expect(page.locator("article.record:visible").count() > 1, f"{name}: the filter does not end")
    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    checked(page, f"{name}-open", width, axe, out)


def served(page, name: str, address: str, width: int, axe: str, out: Path):
    watch(page, name, address)
    Fake.wants_key = True
    page.goto(address)
    page.locator("#models label").first.wait_for()
    expect(page.locator("#models label").count() == 2, f"{name}: reward models only")
    checked(page, f"{name}-empty", width, axe, out)
    page.fill("[name=problem]", f"What is $\\frac{{1}}{{2}}$ of 48? {HOSTILE}")
    page.fill("[name=solution] >> nth=0", "Half of 48 is 24.\n\nThe answer is 24.")
    page.click("#add")
    page.fill("[name=solution] >> nth=1", "It is 22.")
    page.locator("#models input >> nth=1").check()
    page.click("#paste .primary")
    page.fill("#key input", KEY)
    page.click("#key .primary")
    page.locator("#result article").first.wait_for()
    path, _, body = Fake.asked[-1]
    sent = json.loads(body)
    expect(path == "/page/score" and len(sent["solutions"]) == 2 and len(sent["models"]) == 2, f"{name}: sent {sent}")
    expect(page.locator("#result math").count() > 0, f"{name}: no mathematics in the fragment")
    checked(page, f"{name}-scored", width, axe, out)
    page.fill("[name=problem]", "fail")
    page.click("#paste .primary")
    page.locator("#alert").wait_for()
    expect("no steps <script>" in page.locator("#alert").inner_text(), f"{name}: the error is not shown")
    for file in ["a.jsonl", "b.csv", "c.json", "d.parquet", f"e{HOSTILE.replace('/', '')}.jsonl.gz"]:
        drop(page, file)
        page.locator("#result .browser").wait_for()
        page.locator("#status:text-is('Done.')").wait_for()
        expect(Fake.asked[-1][1].get("name") == file, f"{name}: dropped {file}, sent {Fake.asked[-1][:2]}")
    page.click("#rescore")
    page.locator("#status:text-is('Done.')").wait_for()
    expect(Fake.asked[-1][1].get("models", "").startswith("gradus-prm,"), f"{name}: sent {Fake.asked[-1][1]}")
    checked(page, f"{name}-file", width, axe, out)
    page.keyboard.press("n")
    expect(page.evaluate("!!document.activeElement.closest('article.record')"), f"{name}: n finds no record")
    Fake.wants_key = False


def drop(page, name: str):
    page.evaluate("document.querySelector('#result').replaceChildren()")
    data = page.evaluate_handle("""(name) => {
      const data = new DataTransfer();
      data.items.add(new File(["{}"], name));
      return data;
    }""", name)
    page.dispatch_event(".drop", "drop", {"dataTransfer": data})


def main(fragment: str, page_path: Path, out: Path, axe_path: str | None) -> int:
    out.mkdir(parents=True, exist_ok=True)
    axe = Path(axe_path).read_text() if axe_path and Path(axe_path).exists() else ""
    Fake.fragment = fragment
    server = ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    made_up = out / "made-up.html"
    made_up.write_bytes(made(fragment, "page"))
    with sync_playwright() as playwright:
        path = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                views = [("view", lambda page, name: one_file(page, name, page_path, width, axe, out)),
                         ("made-up", lambda page, name: one_file(page, name, made_up, width, axe, out)),
                         ("look", lambda page, name: served(page, name, address, width, axe, out))]
                for view, open_view in views:
                    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                                  bypass_csp=False)
                    open_view(context.new_page(), f"{view}-{size}-{scheme}")
                    context.close()
        browser.close()
    server.shutdown()
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"pages looked at{'' if axe else ' (without axe-core)'}: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4] if len(sys.argv) == 5 else None))
