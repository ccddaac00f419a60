"""The labeling page in a real Chromium: by keyboard, with kills of the server, with hostile text, for two people; with pictures.

    python scripts/test_label_page.py OUTDIR SERVER…

SERVER is the command of a server, to which the folder of a project, a port, a file of records and the number of people per item
are added, such as `sh scripts/serve_label.sh`. Exits 1 when anything is not as it should be.
CHROMIUM names another browser than the one on the PATH.
"""

import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

try:
    import axe_playwright_python
    AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
except ImportError:
    AXE = None

SIZES = {"page": (1280, 900), "phone": (390, 844)}
HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
# What a browser says by itself of an answer that is an error, or of none.
EXPECTED = ("net::ERR_CONNECTION_REFUSED", "net::ERR_EMPTY_RESPONSE", "net::ERR_CONNECTION_RESET", "status of 409", "status of 401")


class Server:
    def __init__(self, command, folder, records, people=1, key=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.arguments = [*command, str(folder), str(self.port), str(records), str(people)]
        self.environment = {**os.environ, **({"LABEL_KEY": key} if key else {})}
        self.address = f"http://127.0.0.1:{self.port}"
        self.start()
        atexit.register(self.kill)

    def start(self):
        self.process = subprocess.Popen(self.arguments, env=self.environment, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def get(self, path):
        with urllib.request.urlopen(self.address + path, timeout=10) as response:
            return response.read().decode()

    def post(self, path, body):
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)

    def exported(self):
        return [json.loads(line) for line in self.get("/v1/label/export?format=gradus").splitlines()]


def record(number, problem, steps, **more):
    solution = {"id": f"s{number}", "problem_id": f"p{number}", "steps": steps, **more}
    return {"gradus": 1, "problem": {"id": f"p{number}", "text": problem, "answer": "14", "reference": ["$3 · 4 = 12$", "$2 + 12 = 14$"]},
            "solutions": [solution]}


def records(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def sample_rows():
    judge = {"judge": {"model": "Qwen2.5-72B", "agreeing": 3, "votes": 4}}
    labels = [{"mark": "correct", "source": judge}] * 2 + [{"mark": "incorrect", "source": judge, "evidence": {
        "explanation": "The tax is 8 % of the discounted price, not of the original one."}}, None]
    long = ["The jacket costs 120 euros and is reduced by 25 %, so the discount is $120 · 0.25 = 30$ euros.",
            "The reduced price is $120 − 30 = 90$ euros.",
            "The tax of 8 % is $120 · 0.08 = 9.60$ euros.",
            "Altogether she pays $90 + 9.60 = 99.60$ euros."]
    first = record(0, "A jacket costs 120 euros. It is reduced by 25 %, and a sales tax of 8 % is added to the reduced price. "
                      "How much does Ann pay for it?", long,
                   scores={"qwen-prm": [0.97, 0.93, 0.31, 0.22], "skywork": [0.91, 0.88, 0.52, 0.40]},
                   annotations=[{"labels": labels, "first_error": 2}])
    others = [record(number, f"What is ${number} + 3 · 4$?", [f"$3 · 4 = 12$", f"${number} + 12 = {number + 12}$", f"So the answer is {number + 12}."],
                     scores={"qwen-prm": [0.9, 0.8, 0.7]}) for number in range(1, 8)]
    return [first, *others]


class Browser:
    def __init__(self, playwright, faults):
        path = os.environ.get("CHROMIUM") or shutil.which("chromium")
        self.browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        self.faults = faults

    def accessible(self, page, where):
        """No finding of axe-core that is serious."""
        if AXE is None:
            return
        page.evaluate(AXE)
        found = page.evaluate("async () => (await axe.run()).violations")
        for rule in found:
            if rule["impact"] in ("serious", "critical"):
                self.faults.append(f"axe: {where}: {rule['id']}: {rule['help']}: {[node['html'][:120] for node in rule['nodes'][:3]]}")

    def page(self, server, name, size="page", scheme="light"):
        width, height = SIZES[size]
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=2)
        page = context.new_page()
        page.on("console", lambda message: None if any(word in message.text for word in EXPECTED) else self.faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", lambda request: None if request.url.startswith((server.address, "data:", "blob:")) else self.faults.append(f"request: {request.url}"))
        page.goto(server.address + "/label")
        if name:
            page.fill("#name", name)
            page.keyboard.press("Enter")
            expect(page.locator("#work")).to_be_visible()
        return page


def marks_of(page):
    return page.locator("#steps > li").evaluate_all("items => items.map((item) => ['correct', 'neutral', 'incorrect'].find((mark) => item.classList.contains(mark)) || null)")


def by_keyboard_with_kills(browser, command, out):
    """Ten steps by keyboard, the server killed twice in between: nothing that was pressed is lost, and nothing is there twice."""
    rows = [record(number, f"Problem {number}", [f"Step {step} of {number}" for step in range(5)]) for number in range(3)]
    folder = out / "kills"
    server = Server(command, folder, records(out / "kills.jsonl", rows))
    page = browser.page(server, "Ann")
    page.keyboard.press("+")
    page.keyboard.press("0")
    expect(page.locator("#steps > li").nth(2)).to_have_attribute("aria-current", "step")
    server.kill()
    page.keyboard.press("+")
    page.keyboard.press("+")
    page.keyboard.press("-")
    expect(page.locator("#unsent")).to_contain_text("kept in this browser and sent, in order, when it is back")
    page.keyboard.press("Enter")
    # The three marks and the end; the mark before them, too, if the server was killed before it answered.
    expect(page.locator("#unsent")).to_contain_text(re.compile("[45] saves are kept"))
    # The browser dies as well: what was not sent is sent by the next one.
    server.start()
    expect(page.locator("#problem")).to_have_text("Problem 1", timeout=20000)
    expect(page.locator("#unsent")).to_be_hidden()
    for key in ["+", "+", "j", "j"]:
        page.keyboard.press(key)
    page.keyboard.press("e")
    assert marks_of(page) == ["correct", "correct", "correct", "correct", "incorrect"], marks_of(page)
    expect(page.locator("#steps > li").nth(4).locator(".badge")).to_be_visible()
    server.kill()
    page.keyboard.press("k")
    page.keyboard.press("0")
    expect(page.locator("#unsent")).to_contain_text("1 save is kept")
    storage = page.context.storage_state()
    page.context.close()
    server.start()
    context = browser.browser.new_context(storage_state=storage, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(server.address + "/label")
    expect(page.locator("#problem")).to_have_text("Problem 1")
    assert marks_of(page) == ["correct", "correct", "correct", "neutral", "incorrect"], marks_of(page)
    page.keyboard.press("Enter")
    expect(page.locator("#problem")).to_have_text("Problem 2")
    page.keyboard.press("u")
    expect(page.locator("#problem")).to_have_text("Problem 1")
    page.keyboard.press("u")
    expect(page.locator("#steps > li").nth(3)).to_have_class("correct")
    page.keyboard.press("Enter")
    expect(page.locator("#problem")).to_have_text("Problem 2")
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_contain_text("Step 1 has no mark")
    server.kill()
    server.start()
    labels = [[label and label["mark"] for label in row["solutions"][0]["annotations"][0]["labels"]] for row in server.exported()[:2]]
    assert labels == [["correct", "neutral", "correct", "correct", "incorrect"], ["correct"] * 4 + ["incorrect"]], labels
    journal = (folder / "labels.journal").read_text()
    saves = [json.loads(line)["found"] for line in journal.splitlines() if '"event":"saved"' in line]
    requests = [save["request"] for save in saves]
    assert len(requests) == len(set(requests)), "a save was done twice"
    print(f"kills: {len(saves)} saves, each once, in {len(journal.splitlines())} lines")
    context.close()
    server.kill()


def hostile_text(browser, command, out):
    rows = [record(0, f"Problem {HOSTILE}", [f"Step {HOSTILE}", "b"], scores={f"model {HOSTILE}": [0.4, 0.9]},
                   annotations=[{"labels": [{"mark": "incorrect", "source": {"judge": {"model": HOSTILE, "agreeing": 1, "votes": 1}},
                                             "evidence": {"explanation": HOSTILE}}, None], "first_error": 0}])]
    server = Server(command, out / "hostile", records(out / "hostile.jsonl", rows), 2)
    page = browser.page(server, f"Ann {HOSTILE[:60]}")
    page.keyboard.press("s")
    expect(page.locator("#steps .suggested").first).to_contain_text("model <img")
    page.keyboard.press("c")
    page.locator("textarea").first.fill(HOSTILE)
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("Space")
    page.keyboard.press("Escape")
    page.keyboard.press("-")
    page.locator("#team summary").click()
    expect(page.locator("#numbers")).to_contain_text("Ann <img")
    page.keyboard.press("Escape")
    page.locator("#steps > li").first.click()
    page.keyboard.press("Enter")
    expect(page.locator("#nothing")).to_contain_text("Every item is labeled")
    expect(page.locator("#numbers table").first).to_contain_text("Ann <img")
    other = browser.page(server, "Bo")
    other.locator("#team summary").click()
    expect(other.locator("#numbers")).to_contain_text("Ann <img")
    for each in (page, other):
        assert "broken" not in each.title() and each.locator("main img, main script").count() == 0
    label = server.exported()[0]["solutions"][0]["annotations"][1]["labels"][0]
    assert label["evidence"]["explanation"] == HOSTILE and label["evidence"]["errors"] == ["NUMERIC"], label
    print("hostile: text stays text")
    page.context.close()
    other.context.close()
    server.kill()


def two_people_and_a_key(browser, command, out):
    rows = [record(number, f"Problem {number}", ["a", "b"]) for number in range(2)]
    server = Server(command, out / "key", records(out / "key.jsonl", rows), 1, key="a-secret-of-some-length")
    pages = []
    for name in ("Ann", "Bo"):
        page = browser.page(server, None)
        page.fill("#name", name)
        page.keyboard.press("Enter")
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.fill("#key", "a-secret-of-some-length")
        page.keyboard.press("Enter")
        expect(page.locator("#work")).to_be_visible()
        pages.append(page)
    texts = [page.locator("#problem").inner_text() for page in pages]
    assert texts == ["Problem 0", "Problem 1"], texts
    # By mouse: radio buttons, then the button for Enter.
    ann = pages[0]
    for step in range(2):
        ann.locator("#steps > li").nth(step).locator("label.plus").click()
    ann.locator("#tools [data-key=Enter]").click()
    expect(ann.locator("#nothing")).to_contain_text("The last 1 item")
    with ann.expect_download() as download:
        ann.locator("#team summary").click()
        ann.locator("#export").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert json.loads(lines[0])["solutions"][0]["annotations"][0]["first_error"] == "none"
    # Every key has a button, and all that is there has a name.
    nameless = ann.locator("button, input, select, textarea").evaluate_all(
        "all => all.filter((one) => !(one.textContent.trim() || one.ariaLabel || one.labels?.length)).map((one) => one.outerHTML)")
    assert nameless == [], nameless
    print("people: each has an item of their own; the key is asked for once")
    for page in pages:
        page.context.close()
    server.kill()


def conflicts(browser, command, out):
    """An item that somebody else has meanwhile: the save is refused, said, kept apart, and the person goes on with another one."""
    rows = [record(number, f"Problem {number}", ["a", "b"]) for number in range(3)]
    server = Server(command, out / "conflicts", records(out / "conflicts.jsonl", rows))
    page = browser.page(server, "Ann")
    page.keyboard.press("+")
    expect(page.locator("#steps > li").first).to_have_class("correct")
    server.post("/v1/label/release", {"annotator": "Ann", "item": 0})
    assert server.post("/v1/label/next", {"annotator": "Bo"})["task"]["item"] == 0
    page.keyboard.press("+")
    expect(page.locator("#problem")).to_have_text("Problem 1")
    expect(page.locator("#notice")).to_contain_text("item 0 was given to somebody else")
    expect(page.locator("#unsent")).to_contain_text("1 save of yours could not be accepted")
    # Another window of hers was first: this one shows what is there.
    save = {"annotator": "Ann", "item": 1, "revision": 0, "label": {"marks": ["neutral", None]}}
    server.post("/v1/label/save", save)
    page.keyboard.press("-")
    expect(page.locator("#notice")).to_contain_text("changed in another window")
    expect(page.locator("#steps > li").first).to_have_class("neutral")
    page.locator("#unsent button", has_text="Forget").click()
    expect(page.locator("#unsent")).to_be_hidden()
    page.keyboard.press("n")
    expect(page.locator("#problem")).to_have_text("Problem 2")
    for key in ("+", "+", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#problem")).to_have_text("Problem 1")
    page.keyboard.press("b")
    expect(page.locator("#problem")).to_have_text("Problem 2")
    assert marks_of(page) == ["correct", "correct"], marks_of(page)
    assert server.exported()[2]["solutions"][0]["annotations"], "a finished item that is looked at stays finished"
    page.keyboard.press("b")
    expect(page.locator("#problem")).to_have_text("Problem 1")
    print("conflicts: refused saves are said and kept")
    page.context.close()
    server.kill()


def pictures(browser, command, out):
    folder = out / "pictures"
    folder.mkdir(exist_ok=True)
    server = Server(command, out / "jackets", records(out / "jackets.jsonl", sample_rows()), 2)
    for size in SIZES:
        for scheme in ("light", "dark"):
            name = f"{size}-{scheme}"
            page = browser.page(server, None, size, scheme)
            expect(page.locator("#name-dialog")).to_be_visible()
            page.screenshot(path=folder / f"{name}-0-name.png")
            browser.accessible(page, f"{name} name")
            page.fill("#name", "Ann")
            page.keyboard.press("Enter")
            expect(page.locator("#work")).to_be_visible()
            page.screenshot(path=folder / f"{name}-1-begin.png")
            browser.accessible(page, f"{name} begin")
            for key in ("+", "0", "e"):
                page.keyboard.press(key)
            page.keyboard.press("s")
            expect(page.locator(".suggested").first).to_be_visible()
            page.keyboard.press("g")
            page.keyboard.press("Space")
            browser.accessible(page, f"{name} categories")
            page.keyboard.press("Escape")
            page.keyboard.press("c")
            page.keyboard.type("The tax is on the reduced price.")
            page.keyboard.press("Escape")
            page.wait_for_timeout(300)
            page.screenshot(path=folder / f"{name}-2-marked.png")
            page.screenshot(path=folder / f"{name}-3-whole.png", full_page=True)
            browser.accessible(page, f"{name} marked")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= SIZES[size][0], f"{name} is {wide} pixels wide"
            page.keyboard.press("?")
            page.screenshot(path=folder / f"{name}-4-help.png")
            browser.accessible(page, f"{name} help")
            page.locator("#help-close").click()
            # Faster than the server answers: three marks, a category and a comment are taken back, one by one.
            for _ in range(5):
                page.keyboard.press("u")
            page.keyboard.press("-")
            expect(page.locator("#steps > li").first).to_have_class("incorrect")
            assert marks_of(page) == ["incorrect", None, None, None], marks_of(page)
            page.keyboard.press("u")
            expect(page.locator("#steps > li.incorrect")).to_have_count(0)
            page.context.close()
    for name, keys in (("Ann", "++e"), ("Bo", "++-")):
        page = browser.page(server, name)
        for _ in range(4):
            before = page.locator("#problem").text_content()
            for key in keys if name == "Ann" else ("+" * page.locator("#steps > li").count()):
                page.keyboard.press(key)
            page.keyboard.press("Enter")
            expect(page.locator("#problem")).not_to_have_text(before)
        page.context.close()
    for size in SIZES:
        page = browser.page(server, "Cy", size, "dark" if size == "phone" else "light")
        page.locator("#team summary").click()
        expect(page.locator("#numbers table")).to_have_count(3)
        expect(page.locator("#progress")).to_have_text("4 of 8 done · 0 by you")
        page.locator("#team").scroll_into_view_if_needed()
        page.screenshot(path=folder / f"{size}-5-numbers.png", full_page=True)
        browser.accessible(page, f"{size} numbers")
        page.context.close()
    server.kill()
    print(f"pictures: {len(list(folder.glob('*.png')))} in {folder}")


def main(out, command):
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    faults = []
    with sync_playwright() as playwright:
        browser = Browser(playwright, faults)
        started = time.time()
        for test in (by_keyboard_with_kills, hostile_text, two_people_and_a_key, conflicts, pictures):
            test(browser, command, out)
        browser.browser.close()
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{time.time() - started:.0f} s{'' if AXE else '; without axe-core, which is not installed'}")
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
