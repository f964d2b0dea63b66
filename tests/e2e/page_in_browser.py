#!/usr/bin/env python3
"""`piper-plan show --html` in headless Chromium: the page draws without a network, zooms, moves, shows what is under the
pointer, finds strategy lines and modules, shows dependences, both themes, and the measured times of a run.

  page_in_browser.py --bin BIN --work DIR --models tests/models

Drives chromedriver by the WebDriver protocol (https://www.w3.org/TR/webdriver2), which is JSON over HTTP, on the loopback
device. Without chromium and chromedriver it says [SKIP]. Screenshots are left in DIR.
"""
import argparse
import array
import base64
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

from checks import check, faults

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
ENTER, ESCAPE = "\ue007", "\ue00c"
SMALL = """piper: 1
model: {batch: 8}
annotate:
  - {tag: PP, starts: ["h.0", "h.1"]}
directives:
  - {op: place, filter: {PP: 0}, devices: [0]}
  - {op: place, filter: {PP: 1}, devices: [1]}
schedule: {family: zero_bubble, microbatches: 4}
optimizer: {sgd: {lr: 0.1}}
"""
# A V of eight stages on four groups of four ranks, experts of every stage parted over its group.
WIDE = """piper: 1
model: {batch: 128}
annotate:
  - {tag: PP, starts: [first, mixtures.1, mixtures.2, mixtures.3, mixtures.4, mixtures.5, mixtures.6, mixtures.7]}
  - {tag: EP, modules: ["mixtures.*"]}
directives:
""" + "".join(f"""  - {{op: replicate, filter: {{PP: [{p}, {7 - p}]}}, devices: {[*range(4 * p, 4 * p + 4)]}, shard_optimizer: true}}
  - {{op: shard, filter: {{PP: [{p}, {7 - p}], EP: "*"}}, devices: {[*range(4 * p, 4 * p + 4)]}}}
""" for p in range(4)) + """schedule: {family: dualpipev, microbatches: 8}
optimizer: {adamw: {lr: 1.0e-3}}
"""
# More than 50,000 instructions in the rows that are drawn.
LARGE = SMALL.replace("batch: 8", "batch: 4200").replace("microbatches: 4", "microbatches: 2100")


class Browser:
    def __init__(self, address, session, work):
        self.address, self.session, self.work = address, session, work

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}/session/{self.session}/{path}".rstrip("/"), data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def open(self, page):
        self.ask("POST", "url", {"url": page.resolve().as_uri()})

    def run(self, script):
        """The value of a JavaScript expression, after the next frame."""
        return self.ask("POST", "execute/async", {"script": f"const done = arguments[0]; requestAnimationFrame(() => setTimeout(() => done({script})));", "args": []})

    def view(self):
        return self.run("({from: chart.from, to: chart.to, top: chart.top, layout: chart.layout})")

    def keys(self, text):
        presses = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.ask("POST", "actions", {"actions": [{"type": "key", "id": "keys", "actions": presses}]})

    def pointer(self, x, y, *more):
        """Moves to a point of the canvas, then does what `more` says."""
        left, top = self.run("(({left, top}) => [left, top])(canvas.getBoundingClientRect())")
        moves = [{"type": "pointerMove", "duration": 0, "x": round(left + x), "y": round(top + y)}, *more]
        self.ask("POST", "actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}]})

    def wheel(self, x, y, delta):
        left, top = self.run("(({left, top}) => [left, top])(canvas.getBoundingClientRect())")
        turn = {"type": "scroll", "x": round(left + x), "y": round(top + y), "deltaX": 0, "deltaY": delta, "duration": 0, "origin": "viewport"}
        self.ask("POST", "actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [turn]}]})

    def text(self, id):
        return self.run(f"document.getElementById('{id}').innerText")

    def picture(self, name):
        (self.work / f"{name}.png").write_bytes(base64.b64decode(self.ask("GET", "screenshot")))


@contextlib.contextmanager
def browser(work):
    profile = pathlib.Path(tempfile.mkdtemp(prefix="piper-page-"))
    driver = subprocess.Popen([DRIVER, "--port=0", "--allowed-ips=127.0.0.1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said = ""
        while not (found := re.search(r"started successfully on port (\d+)", said)):
            line = driver.stdout.readline()
            if not line:
                raise AssertionError(f"chromedriver ended: {said}")
            said += line
        address = f"http://127.0.0.1:{found[1]}"
        options = {"binary": CHROMIUM, "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1600,900", f"--user-data-dir={profile}",
                                                "--host-resolver-rules=MAP * ~NOTFOUND"]}
        body = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}}
        request = urllib.request.Request(f"{address}/session", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            session = json.load(answer)["value"]["sessionId"]
        with_page = Browser(address, session, work)
        try:
            yield with_page
        finally:
            with_page.ask("DELETE", "")
    finally:
        driver.terminate()
        driver.wait()
        shutil.rmtree(profile, ignore_errors=True)


def call(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stdout}")


def page_of(args, name, strategy, *flags, model="tiny_gpt.onnx"):
    (args.work / f"{name}.yaml").write_text(strategy)
    call(args.bin / "piperc", args.models / model, "--strategy", args.work / f"{name}.yaml", "-o", args.work / name)
    page = args.work / f"{name}.html"
    call(args.bin / "piper-plan", "show", args.work / name, "--html", page, *flags)
    return page


# Where the first forward of the last row is: [x, y], its facts.
PLACE = "(() => {const row = step.rows.at(-1), i = row.lanes[0].find((k) => row.class[k] === 'F'), place = chart.placeOf(row, i); " \
        "return [(chart.x(row.begin[i]) + chart.x(row.end[i])) / 2, place.y + place.height / 2, step.strings[row.name[i]]]})()"


# How much of a row's first forward and backward (its input part) of each of its stages is drawn.
SHADES = "(() => {const row = step.rows[0]; return ['F', 'I'].map((pass) => row.stages.map((_, s) => " \
         "step.shade(row, row.pass.findIndex((p, i) => p === pass && row.stage[i] === s))))})()"
# What the first pass of each kind of the first row would be labelled as at this zoom.
LABELS = "(() => {const row = step.rows[0]; return ['F', 'I'].map((pass) => step.shortLabel(row, row.pass.indexOf(pass)))})()"
# Two colours of the lane of messages in the last row, where its first receive waits: at its top and in its middle.
WAITING = "(() => {const row = step.rows.at(-1), i = row.kind.findIndex((kind, k) => kind === RECV && step.transfers[row.transfer[k]].begin > row.begin[k]), " \
          "place = chart.placeOf(row, i), ratio = canvas.width / chart.width, x = (chart.x(row.begin[i]) + chart.x(step.transfers[row.transfer[i]].begin)) / 2 - 9, " \
          "at = (y) => [...chart.context.getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data].join(); " \
          "return [at(place.y + 2), at(place.y + place.height - 4)]})()"


def shows(page):
    check("the page says how long a step is, its bubble in per cent, and of what times", page.text("about") ==
          "step 13 units, bubble 7.7 %; a forward 1, a backward 2 units", page.text("about"))
    top, below = page.run(WAITING)
    check("where a message is waited for, its box is thin", top != below, f"{top} {below}")
    check("times have their unit", page.run("chart.timeText(2)") == "2 units" and page.run("chart.drawAxis.toString().includes('timeText')"))
    check("passes have their long labels where all have room", page.run("(chart.draw(), chart.longLabels)") is True)


def moves(page):
    whole = page.view()
    page.wheel(700, 60, -400)
    near = page.view()
    check("the wheel zooms", near["to"] - near["from"] < 0.6 * (whole["to"] - whole["from"]), f"{whole} {near}")
    page.keys("-")
    far = page.view()
    check("minus zooms out", far["to"] - far["from"] > near["to"] - near["from"], f"{near} {far}")
    page.keys("+")
    page.keys("\ue014")
    right = page.view()
    check("an arrow moves", right["from"] > page.run("0") and right["from"] != near["from"], f"{near} {right}")
    drag = [{"type": "pointerDown", "button": 0}, {"type": "pointerMove", "duration": 50, "x": 900, "y": 300}, {"type": "pointerUp", "button": 0}]
    page.pointer(600, 200, *drag)
    check("dragging moves", page.view()["from"] < right["from"], f"{right} {page.view()}")
    page.keys("0")
    check("0 shows the whole step", page.view() == whole, f"{whole} {page.view()}")


def tells(page, measured):
    x, y, name = page.run(PLACE)
    page.pointer(x, y)
    facts = page.text("hover")
    wanted = ["predicted", "program", "strategy", "place at small.yaml:7:5", "model", "h.1", *(["measured"] if measured else [])]
    check(f"hovering tells what it is{' and what was measured' if measured else ''}", name in facts and all(word in facts for word in wanted), facts)
    page.pointer(x, y, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0})
    check("a click keeps it", name in page.text("kept"), page.text("kept"))
    page.keys("n")
    check("n goes to the next of its stream", name not in page.text("kept"), page.text("kept"))
    place = page.run("(() => {const band = chart.placed.find((b) => b.kind === 'curve'); return band.y + AXIS - chart.top + band.height / 2})()")
    page.pointer(x, place)
    check("the curve tells what is alive", all(word in page.text("hover") for word in ("alive", "peak", "KiB")), page.text("hover"))


def finds_line(page, line, picture):
    page.keys(f"/{line}")
    found = page.run("[...chart.matches.values()].map((m) => m.reduce((a, b) => a + b, 0))")
    wanted = page.run(f"step.rows.map((row) => row.origin.filter((o) => step.origins[o]?.key.includes('{line}')).length)")
    check("a strategy line finds what it made", found == wanted and sum(found) > 0, f"{found} {wanted}")
    page.keys(ENTER)
    check("Enter goes to the first find", page.text("found").startswith("1 of ") and line in page.text("kept"), page.text("kept"))
    page.picture(picture)


def finds(page):
    finds_line(page, "small.yaml:7:5", "found")
    page.keys(ESCAPE)
    check("Escape forgets the search", page.run("chart.matches === null && chart.kept === null"))
    page.run("document.querySelectorAll('#lines button')[0].click()")
    check("a line of the panel is searched", page.run("chart.matches !== null"))
    page.keys(ESCAPE)


def other_views(page):
    page.keys("g")
    deep = page.run("(() => {const row = chart.rowsShown()[0]; return [chart.layout, row.edges.length, row.edges.every(([a, b]) => row.depth[a] < row.depth[b])]})()")
    check("g shows the dependences of a rank, from left to right", deep[0] == "depth" and deep[1] > 0 and deep[2], f"{deep}")
    page.picture("dependences")
    page.keys("g")
    first = page.run("[document.documentElement.dataset.theme ?? '', chart.colours.back]")
    page.keys("t")
    second = page.run("[document.documentElement.dataset.theme, chart.colours.back]")
    check("t changes between light and dark", first[1] != second[1], f"{first} {second}")
    page.picture("other-theme")
    page.keys("t")


# Where the first exchange of rows is, in a lane of its own: [x, y], its name.
EXCHANGE = "(() => {for (const row of step.rows) for (let i = 0; i < row.count; ++i) if (row.kind[i] === ALL_TO_ALL) { " \
           "const place = chart.placeOf(row, i); return [chart.x(step.transfers[row.transfer[i]].end), place.y + place.height / 2, step.strings[row.name[i]]]; }})()"


def sixteen_ranks(page):
    check("all 16 ranks are in the rows", page.run("step.rows.reduce((sum, row) => sum + row.members, 0)") == 16)
    page.picture("wide")
    shades, labels = page.run(SHADES), page.run(LABELS)
    check("stages of one rank are shades of their colour", all(of == [1, 0.6] for of in shades), f"{shades}")
    check("forwards and backwards are labelled alike, with the stage", [re.fullmatch(r"\d[FI]0", label) is not None for label in labels] == [True] * 2, f"{labels}")
    moves(page)
    x, y, name = page.run(EXCHANGE)
    page.pointer(x, y)
    facts = page.text("hover")
    check("hovering over an exchange tells its group, its size and its line", "all_to_all" in facts and name in facts and
          all(word in facts for word in ("over", "size", "shard at wide.yaml:8:5")), facts)
    page.picture("wide-hover")
    finds_line(page, "wide.yaml:8:5", "wide-found")
    page.keys(ESCAPE)
    page.keys("0")


# What part of the pixels of the first lane of messages has their colour.
RED = "(() => {const row = step.rows[0], lane = row.lanes.findIndex((all) => all.some((i) => row.kind[i] === SEND)), place = chart.placeOf(row, row.lanes[lane][0]), " \
      "ratio = canvas.width / chart.width, wide = canvas.width - GUTTER * ratio, y = Math.round((place.y + place.height / 2) * ratio), " \
      "data = chart.context.getImageData(GUTTER * ratio, y, wide, 1).data, colour = chart.colours.message.match(/\\d+/g).map(Number); let red = 0; " \
      "for (let k = 0; k < data.length; k += 4) red += colour.every((value, c) => Math.abs(data[k + c] - value) < 12); return 4 * red / data.length})()"


def main():
    parser = argparse.ArgumentParser()
    for name in ("--bin", "--work", "--models"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    args = parser.parse_args()
    if not (CHROMIUM and DRIVER):
        print("[SKIP] no chromium and chromedriver; tools/setup.sh installs them")
        return
    args.work.mkdir(parents=True, exist_ok=True)
    with browser(args.work) as page:
        small = page_of(args, "small", SMALL)
        page.open(small)
        drawn = page.run("chart.context.getImageData(0, 0, canvas.width, canvas.height).data.some((value, k, all) => k > 4 && value !== all[k % 4])")
        check("the page draws", drawn)
        page.picture("small")
        shows(page)
        moves(page)
        tells(page, measured=False)
        finds(page)
        other_views(page)
        tokens = args.work / "tokens.bin"
        tokens.write_bytes(array.array("H", (k * k % 7 for k in range(2000))).tobytes())
        call(args.bin / "piper-run", args.work / "small", "--data", tokens, "--steps", 6, "--threads", 1, "--profile", args.work / "small.profile")
        page.open(page_of(args, "small", SMALL, "--profile", args.work / "small.profile"))
        check("measured times are drawn below", page.run("chart.placed.some((band) => band.kind === 'measured')"))
        tells(page, measured=True)
        check("it says what is measured, and what it is compared with", re.fullmatch(
            r"step \S+ us, bubble \S+ %; with the runs' times of small.profile, measured below it", page.text("about")) is not None, page.text("about"))
        page.picture("measured")
        page.open(page_of(args, "wide", WIDE, model="routed_chain.onnx"))
        sixteen_ranks(page)
        page.open(page_of(args, "large", LARGE))
        check("a page holds 50,000 instructions", page.run("step.rows.reduce((sum, row) => sum + row.count, 0)") > 50000)
        page.picture("large")
        check("no pass has its long label where one has no room", page.run("(chart.draw(), chart.longLabels)") is False)
        red = page.run(RED)
        check("messages that take no time do not fill their row", 0.02 < red < 0.5, f"{red}")
        moves(page)
        finds_in_large = page.run("(search('pp0.f m2000'), finds.length)")
        check("one pass of 2,100 is found", finds_in_large == 1, f"{finds_in_large}")
        log = [line for line in page.ask("POST", "se/log", {"type": "browser"}) if line["level"] == "SEVERE"]
        check("the browser has nothing to complain of", not log, f"{log}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
