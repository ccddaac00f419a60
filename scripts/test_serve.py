"""The page of a real `gradus serve` in a real Chromium: look, compare, drop files, watch a job; with pictures.

    python scripts/test_serve.py GRADUS OUTDIR

Exits 1 when anything is not as it should be: a console message, a request elsewhere, text taken as markup, a serious finding of
axe-core. CHROMIUM names another browser than the one on the PATH.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
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
MODELS = Path(__file__).parent.parent / "crates/engine/tests/reference/models"
faults: list[str] = []

gradus, out = sys.argv[1], Path(sys.argv[2])
shutil.rmtree(out, ignore_errors=True)
out.mkdir(parents=True)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
address = f"http://127.0.0.1:{port}"
KEY = "a-key-of-more-than-sixteen"
models = [f"{name}={MODELS / folder}" for name, folder in
          [("prm", "qwen2-prm"), ("<b>bold</b>", "qwen2-prm"), ("writer", "qwen2")]]
environment = {**os.environ, "GRADUS_LOG": "warn", "GRADUS_HOME": str(out / "home")}
server = subprocess.Popen([gradus, "serve", "--listen", f"127.0.0.1:{port}", *[word for model in models for word in ("--model", model)]],
                          env=environment, stderr=subprocess.PIPE)
server.stderr.readline()


def keyed_server():
    """A second server, with keys and a pool: its address and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = free.getsockname()[1]
    subprocess.run([gradus, "synth", "-n", "30", "--seed", "2", "-o", str(out / "world.jsonl")], check=True, capture_output=True)
    subprocess.run([gradus, "pool", "build", str(out / "world.jsonl"), "-e", str(MODELS / "bert-mean"), "-o", str(out / "pool")],
                   check=True, capture_output=True)
    (out / "keys.toml").write_text(f'[[key]]\nname = "all"\nkey = "{KEY}"\nmanage = true\n')
    command = [gradus, "serve", "--listen", f"127.0.0.1:{place}", "--key-file", str(out / "keys.toml"), "--model", f"prm={MODELS / 'qwen2'}",
               "--profile", "retrieval-prm", "--pool", str(out / "pool"), "--encoder", str(MODELS / "bert-mean")]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    said = process.stderr.readline().decode()
    assert said.startswith("serving"), said + process.stderr.read().decode()
    return f"http://127.0.0.1:{place}", process


def files():
    """One small dataset in five formats that Gradus reads."""
    rows = [{"question": f"What is {number} + 3?", "response": f"${number} + 3 = {number + 3}$.\n\nSo {number + 3}. {HOSTILE}", "gold": str(number + 3)}
            for number in range(3)]
    lines = out / "answers.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    chat = out / "chat.json"
    chat.write_text(json.dumps([{"messages": [{"role": "user", "content": row["question"]}, {"role": "assistant", "content": row["response"]}]} for row in rows]))
    steps = out / "steps.jsonl"
    steps.write_text("".join(json.dumps({"prompt": row["question"], "completions": row["response"].split("\n\n"), "labels": [True, False]}) + "\n" for row in rows))
    # A name that would be markup.
    hostile = out / (HOSTILE.replace("/", "") + ".jsonl")
    shutil.copy(lines, hostile)
    made = [lines, chat, steps, hostile]
    for name in ("ours.jsonl.gz", "table.parquet"):
        subprocess.run([gradus, "data", "convert", str(lines), "--to", "gradus", "-o", str(out / name)], check=True, capture_output=True)
        made.append(out / name)
    return made


def post(path, body):
    request = urllib.request.Request(address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def opened(browser, path, size, scheme):
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.on("console", lambda message: faults.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("request", lambda request: None if request.url.startswith((address, "data:", "blob:")) else faults.append(f"request: {request.url}"))
    page.goto(address + path)
    return page


def check(page, name):
    page.screenshot(path=str(out / f"{name}.png"), full_page=True)
    if page.title() == "broken" or page.locator("#result script, #result img").count():
        faults.append(f"{name}: text was taken as markup")
    wide = page.evaluate("document.documentElement.scrollWidth > innerWidth + 1")
    if wide:
        faults.append(f"{name}: wider than the screen")
    if AXE:
        page.evaluate(AXE)
        for rule in page.evaluate("async () => (await axe.run()).violations"):
            if rule["impact"] in ("serious", "critical"):
                faults.append(f"{name}: axe: {rule['id']}: {[node['html'][:120] for node in rule['nodes'][:3]]}")


def look(browser, size, scheme):
    page = opened(browser, "/", size, scheme)
    page.fill("[name=problem]", f"What is $2^3 + \\frac{{1}}{{2}}$? {HOSTILE}")
    page.fill("[name=solution]", f"We have $2^3 = 8$.\n\nSo $\\frac{{17}}{{2}}$. {HOSTILE}")
    page.click("#add")
    page.locator("[name=solution]").nth(1).fill("It is $9$.\n\nThe answer is $\\boxed{9}$.")
    page.fill("[name=answer]", "17/2")
    for box in page.locator("#models input").all():
        box.check()
    page.click("#paste button.primary")
    expect(page.locator("#result math").first).to_be_visible(timeout=30000)
    expect(page.locator("#result")).to_contain_text("<b>bold</b>")
    check(page, f"look-{size}-{scheme}")
    if (size, scheme) != ("page", "light"):
        return
    for path in files():
        page.set_input_files("input[type=file]", str(path))
        expect(page.locator("#status")).to_have_text("Done.", timeout=30000)
        if page.locator("#result article").count() != 3:
            faults.append(f"{path.name}: {page.locator('#result article').count()} records are shown")
        page.click("#rescore")
        expect(page.locator("#status")).to_have_text("Done.", timeout=30000)
        expect(page.locator("#result")).to_contain_text("prm")
        check(page, f"file-{path.suffix[1:]}-{path.stem}")
    (out / "bad.jsonl").write_text("{\"nothing\": 1}\n")
    refused = "the server's refusal is shown"
    page.on("console", lambda message: None)
    before = len(faults)
    page.set_input_files("input[type=file]", str(out / "bad.jsonl"))
    expect(page.locator("#alert"), refused).to_contain_text("cannot be read", timeout=30000)
    # The browser says by itself that an answer was an error.
    faults[before:] = [fault for fault in faults[before:] if "status of 400" not in fault]


def watch(browser, size, scheme):
    job = post("/v1/steps/annotate", {"model": "writer", "problem": "What is 2 + 3?", "answer": "5", "method": "monte_carlo",
                                      "config": {"samples": 2, "max_tokens": 8}, "solutions": ["It is 5.\n\nSo 5."] * 4})
    page = opened(browser, "/watch", size, scheme)
    row = page.locator("tr", has=page.locator(f'[title="{job["id"]}"]'))
    expect(row).to_contain_text("done", timeout=30000)
    expect(row).to_contain_text("4 / 4")
    expect(page.locator("#result")).to_contain_text("writer")
    check(page, f"watch-{size}-{scheme}")


def start_from_the_page(browser):
    """A job started from a file, its result downloaded."""
    page = opened(browser, "/watch", "page", "light")
    page.get_by_text("Label the steps of a file").click()
    page.get_by_label("File").set_input_files(str(out / "answers.jsonl"))
    page.locator("select[name=model]").select_option("writer")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#status")).to_contain_text("Started job-")
    identity = page.locator("#status").text_content().split()[1].rstrip(".")
    button = page.locator(f'button[data-result="{identity}"]')
    expect(button).to_be_visible(timeout=60000)
    with page.expect_download() as caught:
        button.click()
    lines = Path(caught.value.path()).read_text().splitlines()
    if len(lines) != 3 or not all(json.loads(line)["solutions"][0]["annotations"] for line in lines):
        faults.append(f"the downloaded labels: {lines}")
    page.get_by_label("Method").select_option("judge")
    check(page, "watch-start")
    page.context.close()


def a_pool_with_a_key(browser):
    """A server with a key: the key is given once, and the map of its pool opens."""
    place, process = keyed_server()
    try:
        page = browser.new_page()
        # Before the page's own script runs, however long a navigation takes.
        page.add_init_script(f"sessionStorage.setItem('gradus-key', '{KEY}')")
        page.goto(place + "/watch")
        expect(page.locator("#result")).to_contain_text("bert-mean", timeout=30000)
        page.get_by_role("link", name="Map").click()
        expect(page.locator("h1")).to_have_text("Pool of prm")
        expect(page.locator("svg circle").first).to_be_visible()
        page.screenshot(path=str(out / "pool-map.png"))
        page.reload()
        if "needs a key" not in page.content() and "401" not in page.content() and "key" not in page.content():
            faults.append("a ticket was good twice")
        page.close()
    finally:
        process.terminate()
        process.wait(30)


try:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"), args=["--no-sandbox"])
        for size in SIZES:
            for scheme in ("light", "dark"):
                look(browser, size, scheme)
                watch(browser, size, scheme)
        start_from_the_page(browser)
        a_pool_with_a_key(browser)
finally:
    server.terminate()
    if server.wait(30) != 0:
        faults.append("the server did not end as it should")
for fault in faults:
    print(fault)
print(f"{len(list(out.glob('*.png')))} pictures in {out}")
sys.exit(1 if faults else 0)
