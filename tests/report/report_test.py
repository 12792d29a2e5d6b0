#!/usr/bin/env python3
"""`shoal report`: what it says of run directories that have nothing to show, that the file needs nothing else, that what
is drawn is where the numbers are, and, where there is a Chromium, that nothing overlaps at desktop and phone width.

Usage: report_test.py SHOAL_REPORT [KEEP_FOLDER]      KEEP_FOLDER: report and screenshots stay there, to be looked at"""
import html.parser
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

program = sys.argv[1]


def report(*arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)


def refused(words, code, *arguments):
    done = report(*arguments)
    assert done.returncode == code, (arguments, done)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1 and words in errors[0], (words, done.stderr)


def attempt(number):
    return {"attempt": number, "job": "", "chain": "", "restart_count": 0, "host": "n1", "process": 1, "ranks": 4,
            "started": 1000.0, "state": "finished", "reason": "finished", "requeued": False, "exit_code": 0,
            "ended": 1250.0, "start_step": 0, "end_step": 200}


def lines_of(seed):
    yield {"type": "start", "version": 1, "attempt": 1, "time": 1000, "model": "gpt2-124m", "strategy": "full_shard",
           "device": "cpu", "ranks": 4, "from_step": 0, "total_steps": 200}
    for step in range(2, 201, 2):
        wave = math.sin(step * (seed + 1))
        yield {"type": "step", "attempt": 1, "time": 1000 + step, "step": step, "epoch": 0,
               "loss": 3 + 7 * math.exp(-step / (40 + 20 * seed)) + 0.05 * wave,
               "learning_rate": 6e-4 * min(1, step / 50), "grad_norm": 1 + 0.1 * wave, "ranks": 4,
               "samples_per_second": 400 + 80 * seed + 10 * wave, "tokens_per_second": 409600.0 + 1000 * wave,
               "mfu": 0.4 + 0.01 * wave, "step_ms": 80,
               "split": {"step": step - 1, "step_ms": 80, "compute_ms": 55 + wave, "exposed_ms": 8 - wave,
                         "optimizer_ms": 10, "data_ms": 1, "host_ms": 6},
               "allocated_bytes": 5 << 30, "reserved_bytes": (7 + seed) << 30, "peak_bytes": (6 + seed) << 30}
        if step % 50 == 0:
            yield {"type": "checkpoint", "attempt": 1, "time": 1000 + step, "step": step, "bytes": 1 << 30,
                   "seconds": 2 + wave}
    yield {"type": "validation", "attempt": 1, "time": 1200, "step": 200, "loss": 3.2, "accuracy": 0.4}


def make_run(folder, seed, lines=None):
    run = folder / "run"
    (run / "attempts").mkdir(parents=True)
    (run / "attempts/000001.json").write_text(json.dumps(attempt(1)))
    if lines is None:
        lines = [json.dumps(line) for line in lines_of(seed)]
    (run / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))
    return folder


class Elements(html.parser.HTMLParser):
    """The elements of a page, with what refers to something outside of it; fails where tags do not close."""
    EMPTY = {"meta", "path", "circle", "polyline", "polygon"}

    def __init__(self, text):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag


def check_page(text, names):
    elements = Elements(text).elements
    for tag, attributes in elements:
        assert tag not in ("link", "img", "iframe") and "src" not in attributes and "href" not in attributes, tag
    assert not re.search(r"https?://|url\(|@import|fetch\(", text)
    plots = [a for tag, a in elements if tag == "svg"]
    assert len(plots) == 8 + len(names), len(plots)
    units = re.findall(r"class='middle name'>([^<]*)<", text)
    assert len(units) == 2 * len(plots) and all(re.search(r"\(.+\)$", unit) for unit in units), units
    return elements


def check_drawn(elements, name, run_lines):
    """The line of a run's loss, back from pixels to numbers."""
    svg = next(i for i, (tag, a) in enumerate(elements) if tag == "svg" and a["aria-label"] == "Loss")
    low, high, at_low, at_high = map(float, elements[svg][1]["data-y"].split())
    left, right, at_left, at_right = map(float, elements[svg][1]["data-x"].split())
    line = next(a for tag, a in elements[svg:] if tag == "polyline" and a["data-label"] == name)
    drawn = [tuple(map(float, point.split(","))) for point in line["points"].split()]
    wanted = [(l["step"], l["loss"]) for l in run_lines if l["type"] == "step"]
    assert len(drawn) == len(wanted)
    for (x, y), (step, loss) in zip(drawn, wanted):
        assert abs(left + (x - at_left) / (at_right - at_left) * (right - left) - step) < 0.2
        assert abs(low + (y - at_low) / (at_high - at_low) * (high - low) - loss) < 0.005


# Text that lies over other text, or beside the page; the second number is the width that the page wants.
OVERLAPS = """
<script>
addEventListener('load', () => {
  const bad = [];
  for (const svg of document.querySelectorAll('svg')) {
    const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    const frame = svg.getBoundingClientRect();
    boxes.forEach(([a, r], i) => {
      if (r.left < frame.left - 1 || r.right > frame.right + 1 || r.bottom > frame.bottom + 1) bad.push(a + ' is outside');
      for (const [b, s] of boxes.slice(i + 1))
        if (r.left < s.right && s.left < r.right && r.top + 2 < s.bottom && s.top + 2 < r.bottom) bad.push(a + ' over ' + b);
    });
  }
  document.title = JSON.stringify({bad, width: document.documentElement.scrollWidth});
});
</script>"""


def check_in_browser(browser, page, folder, width):
    probe = folder / f"probe-{width}.html"
    probe.write_text(page.read_text().replace("</body>", f"{OVERLAPS}</body>"))
    # Windows of the browser are not narrower than 500 pixels: a frame is.
    frame = folder / f"frame-{width}.html"
    frame.write_text(f"<title>wait</title><body style='margin:0'><iframe id=f src='{probe.name}' style='border:0;"
                     f"width:{width}px;height:3000px' onload='setTimeout(() => document.title = f.contentDocument.title,"
                     " 200)'></iframe>")
    common = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
              "--virtual-time-budget=3000", f"--user-data-dir={folder}/profile", f"--window-size={max(width, 500)},3000"]
    done = subprocess.run([*common, "--dump-dom", frame.as_uri()], capture_output=True, text=True, timeout=60)
    title = re.search(r"<title>(\{.*?\})</title>", done.stdout)
    assert title, done.stdout[:500] + done.stderr[-500:]
    found = json.loads(html.unescape(title[1]))
    assert not found["bad"], found
    assert found["width"] <= width, found
    subprocess.run([*common, f"--screenshot={folder}/report-{width}.png", frame.as_uri()], capture_output=True, timeout=60)


def check_bad_input(work):
    refused("a run directory is missing", 2)
    refused("is no run directory", 5, work / "absent")
    (work / "empty").mkdir()
    refused("is no run directory", 5, work / "empty")
    only_begun = make_run(work / "begun", 0, lines=[])
    refused("tells of no step yet", 5, only_begun)
    (only_begun / "run/metrics.jsonl").unlink()
    refused("has no metrics.jsonl", 5, only_begun)
    refused("newer version", 5, make_run(work / "newer", 0, lines=['{"type": "start", "version": 99}']))
    for name in ("attempts/000001.json", "status.json"):
        newer = make_run(work / f"newer-{len(name)}", 0)
        (newer / "run" / name).write_text(json.dumps({"version": 2, "mode": "of another time"}))
        refused(f"{name} was written by a newer version of Shoal (record version 2, this program knows 1)", 5, newer)
    torn = make_run(work / "torn", 0)
    with (torn / "run/metrics.jsonl").open("a") as file:
        file.write('{"type": "st')
    done = report(torn, "--output", work / "torn.html")
    assert done.returncode == 0 and not done.stderr, done
    broken = make_run(work / "broken", 0)
    (broken / "run/attempts/000001.json").write_text("{")
    refused("none of its records can be read", 5, broken)
    assert len(report(broken).stderr.splitlines()) == 1, report(broken)
    refused("cannot", 5, torn, "--output", work / "absent" / "x.html")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(scratch)
        check_bad_input(work)
        keep = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else work / "out").resolve()
        keep.mkdir(exist_ok=True, parents=True)
        names = ["baseline", "a <wide> & rather long name", "third"]
        runs = [make_run(work / name, i) for i, name in enumerate(names)]
        page = keep / "report.html"
        done = report(*runs, "--output", page)
        assert done.returncode == 0, done
        elements = check_page(page.read_text(), names)
        for i, name in enumerate(names):
            check_drawn(elements, name, list(lines_of(i)))
        browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if not browser:
            print("no Chromium: the page was checked, but not looked at")
            return
        for width in (1400, 380):
            check_in_browser(browser, page, keep, width)


main()
