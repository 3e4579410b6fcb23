#!/usr/bin/env python3
"""The pages of recent plans, of a server under load, and of plans on pipelines and in a pool of ranks, as headless
Chromium shows them.

    plans_page_test.py --bin build/release/bin [--keep FOLDER]

With --keep the screenshots stay there, for eyes. Exits with 77, which skips the test, where there is
no Chromium or no Pillow.
"""

import argparse
import contextlib
import html.parser
import pathlib
import shutil
import subprocess
import sys
import tempfile

from processes import Processes, expect, report, start_server

try:
    from PIL import Image
except ImportError:
    Image = None

JOBS = {"grpo-7b", "grpo-asynchronous", "sft-documents", "dpo-pairs", "sft-70b", "rl-long-reasoning",
        "sft-images", "sft-misconfigured"}
# Of these, the ones whose reports hold their steps.
REPORTS = {"grpo-7b", "rl-long-reasoning", "sft-images"}
# And the one on pipelines, which has a picture of the stages of a rank besides.
STAGES = "sft-70b"
LOAD_SECONDS = 5
# Of page.css, in a light room: sequences, from short to long, and what a sparkline is drawn with.
SEQUENCE_COLORS = ["#c3dcef", "#9cc6e4", "#70abd6", "#468dc3", "#286fab", "#14528c", "#0a3765"]
# The same, forwards and backwards of a pipeline's two chunks.
WORK_COLORS = ["#a3ddd4", "#6cb9ae", "#bdaee8", "#9483d1"]
# What a script writes where a figure is missing.
NOT_FOR_PEOPLE = ("NaN", "undefined", "Infinity", "[object")


class VisibleText(html.parser.HTMLParser):
    """The text of a page and what it is made of, without scripts, styles and what is hidden."""

    VOID = {"meta", "link", "br", "input", "line", "circle", "polygon", "polyline"}

    def __init__(self, page):
        super().__init__()
        self.text = ""
        self.tags = []
        self.hidden = 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        hides = tag in ("script", "style", "template", "noscript", "title") or "hidden" in dict(attributes)
        if self.hidden or hides:
            self.hidden += tag not in self.VOID
        else:
            self.tags.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if self.hidden and tag not in self.VOID:
            self.hidden -= 1

    def handle_data(self, data):
        if not self.hidden:
            self.text += data


def browse(browser, folder, url, *flags):
    """What Chromium prints; nothing that a script of the page complains about."""
    result = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
         f"--user-data-dir={folder}/profile", "--enable-logging=stderr", "--window-size=1400,1500",
         "--virtual-time-budget=5000", *flags, url],
        capture_output=True, text=True, timeout=120, check=True)
    complaints = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    expect(not complaints, f"{url}: {complaints}")
    return result.stdout


def read(browser, folder, url):
    visible = VisibleText(browse(browser, folder, url, "--dump-dom"))
    for word in NOT_FOR_PEOPLE:
        expect(word not in visible.text, f'{url}: "{word}" on the page')
    return visible


def check_picture(path, colors, least):
    """So many of these colors at least stand on the screenshot, and it is not all one color."""
    image = Image.open(path).convert("RGB")
    pixels = {color: count for count, color in image.getcolors(maxcolors=1 << 24)}
    seen = [name for name in colors if pixels.get(tuple(bytes.fromhex(name[1:])), 0) > 200]
    expect(len(seen) >= least, f"{path.name}: of {colors} only {seen}")
    expect(max(pixels.values()) < 0.95 * image.width * image.height, f"{path.name}: nearly all of one color")


def check_empty(browser, folder, url):
    visible = read(browser, folder, url)
    expect("Nothing was planned yet." in visible.text, "an idle server's page does not say so")
    expect("canvas" not in visible.tags, "an idle server's page has a picture")


def check_job(browser, folder, url, job):
    visible = read(browser, folder, f"{url}?job_id={job}")
    expect(visible.tags.count("svg") == len(JOBS), f"{job}: {visible.tags.count('svg')} sparklines")
    pictures = 2 if job == STAGES else 1
    expect(visible.tags.count("canvas") == pictures, f"{job}: {visible.tags.count('canvas')} pictures")
    for name in JOBS:
        expect(name in visible.text, f"{job}: the page does not name {name}")
    for words in (f"{job}, step ", "step efficiency", "Ranks over time", "by this server"):
        expect(words in visible.text, f'{job}: "{words}" is not on the page')
    for words in ("step took", "ranks waited", "%)"):
        expect((words in visible.text) == (job in REPORTS), f'{job}: "{words}" is on the page of jobs that report')
    screenshot = folder / f"{job}.png"
    browse(browser, folder, f"{url}?job_id={job}", f"--screenshot={screenshot}")
    # Sequences of every length.
    check_picture(screenshot, SEQUENCE_COLORS, 5)


def check_pipeline(browser, folder, batchplan):
    lengths = "".join(f"{200 + 613 * i % 3800}\n" for i in range(64))
    planned = subprocess.run(
        [batchplan, "plan", "--lengths", "-", "--dp", "2", "--pp", "4", "--vpp", "2", "--budget", "8192",
         "--format", "html"], input=lengths, capture_output=True, text=True, timeout=60, check=True)
    page = folder / "pipeline.html"
    page.write_text(planned.stdout)
    visible = read(browser, folder, page.as_uri())
    expect(visible.tags.count("canvas") == 2, f"on pipelines: {visible.tags.count('canvas')} pictures")
    for words in ("pipeline bubble", "in bubbles", "Stages of rank", "4 stages of 2 chunks each, interleaved 1F1B"):
        expect(words in visible.text, f'on pipelines: "{words}" is not on the page')
    screenshot = folder / "pipeline.png"
    browse(browser, folder, page.as_uri(), f"--screenshot={screenshot}")
    check_picture(screenshot, WORK_COLORS, len(WORK_COLORS))


def check_pool(browser, folder, batchplan):
    lengths = "".join(f"{200 + 613 * i % 7000}\n" for i in range(64))
    pages = {"plan": ("a pool of 8 ranks in groups of 1 to 8", "8,192 tokens on 2 ranks", "in groups of c ranks also",
                      "of the time", "of all the ranks that it covers"),
             "compare": ("megatron_dynamic_cp", "cp 2", "cp 4", "cp 8", "exchange")}
    for command, shown in pages.items():
        planned = subprocess.run(
            [batchplan, command, "--lengths", "-", "--dp", "4", "--cp", "2", "--dynamic_cp", "1", "--budget", "8192",
             "--format", "html"],
            input=lengths, capture_output=True, text=True, timeout=60, check=True)
        page = folder / f"pool_{command}.html"
        page.write_text(planned.stdout)
        visible = read(browser, folder, page.as_uri())
        for words in shown:
            expect(words in visible.text, f'of a pool, {command}: "{words}" is not on the page')
        screenshot = folder / f"pool_{command}.png"
        browse(browser, folder, page.as_uri(), f"--screenshot={screenshot}")
        check_picture(screenshot, SEQUENCE_COLORS, 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None or Image is None:
        print("skipped: needs Chromium (deploy/install_packages.sh test) and Pillow (tests/requirements.txt)")
        sys.exit(77)
    with contextlib.ExitStack() as stack:
        folder = arguments.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        check_pipeline(browser, folder, arguments.bin / "batchplan")
        check_pool(browser, folder, arguments.bin / "batchplan")
        processes = stack.enter_context(Processes())
        target, http = start_server(processes, arguments.bin, folder)
        url = f"http://{http}/plans"
        check_empty(browser, folder, url)
        # A slow machine makes few steps, and costs are fitted, and times predicted, after some.
        for _ in range(3):
            subprocess.run([arguments.bin / "trainers_example", "--server", target, "--interval", "0.2",
                            "--seconds", str(LOAD_SECONDS)], check=True, stderr=subprocess.DEVNULL)
            if all("%)" in read(browser, folder, f"{url}?job_id={job}").text for job in REPORTS):
                break
        for job in sorted(JOBS):
            check_job(browser, folder, url, job)
    report()


if __name__ == "__main__":
    main()
