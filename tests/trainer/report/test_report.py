"""The report page of a training, and rollcall-report: of a real run, of two, of damaged records; in a browser if available."""
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import trainer_ranks
from trainer_ranks import SMALL

pytestmark = pytest.mark.python
ROOT = pathlib.Path(os.environ.get("ROLLCALL_SOURCE_DIR", pathlib.Path(__file__).parents[3]))
REPORT = trainer_ranks.BUILD / "trainer" / "rollcall-report"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VOID = {"meta", "br", "hr", "img", "input", "link"}
OPTIONS = (*SMALL, "--num-classes=10", "--fake-size=47", "--epochs=2", "--valid-epochs=1", "--log-steps=1", "--lr=0.001",
           "--train-num-workers=1", "--checkpoint-steps=3", "--checkpoint-epochs=0")


class Page(html.parser.HTMLParser):
    """The parts of a page that tests check; records elements that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.ids, self.tables, self.data, self.problems = [], [], [], [], [], []
        self.cell = None
        self.feed(text)
        self.close()
        self.problems += [f"not closed: {name}" for name in self.open]

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1].append("")
            self.cell = True
        if tag == "script" and attributes.get("type") == "application/json":
            self.data.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")
        if tag in ("th", "td"):
            self.cell = None

    def handle_data(self, data):
        if self.cell:
            self.tables[-1][-1][-1] += data
        elif self.open and self.open[-1] == "script" and self.elements[-1][1].get("type") == "application/json":
            self.data[-1] += data

    def charts(self):
        return {data["title"]: data for data in map(json.loads, self.data) if "title" in data}

    def table(self, first):
        return next(table for table in self.tables if table[0][0] == first)


def report(*arguments, code=0):
    done = subprocess.run([REPORT, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def make_run(folder, *options):
    subprocess.run([sys.executable, ROOT / "benchmarks" / "report" / "make_run.py", folder, *options], check=True)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Ended after the seventh step of ten, and gone on with; what the second start printed."""
    folder = tmp_path_factory.mktemp("trained")
    trainer_ranks.run(folder, *OPTIONS, "--max-steps=7")
    return folder, trainer_ranks.run(folder, *OPTIONS)


def test_a_training_writes_a_report_page_and_prints_a_summary(trained):
    folder, printed = trained
    text = (folder / "report.html").read_text()
    page = Page(text)
    assert page.problems == [] and len(text) < 1_000_000
    assert len(page.ids) == len(set(page.ids))
    for name in ("run", "training", "where", "progress", "result", "speed", "a step", "ranks", "checkpoints", "cost"):
        assert re.search(rf"^{name} +\S", printed, re.M), printed
    assert f"report      {folder}/report.html" in printed
    assert re.search(r"^run .*: finished$", printed, re.M) and re.search(r"^progress +step 10 of 10$", printed, re.M)


def test_the_report_page_matches_the_records(trained):
    folder, _ = trained
    page = Page((folder / "report.html").read_text())
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines() if '"event":"step"' in line]
    charts = page.charts()
    assert set(charts) >= {"Loss", "Accuracy", "Learning rate", "Images a second", "A step's time by part", "Checkpoints"}
    (training, validation) = charts["Loss"]["lines"]
    assert training["x"] == [step["step"] for step in steps]
    assert training["m"] == pytest.approx([step["loss"] for step in steps], rel=1e-5)
    assert validation["x"] == [5, 7, 10]
    parts = charts["A step's time by part"]
    assert parts["stacked"] and [line["n"] for line in parts["lines"]] == ["data", "forward", "backward", "wait", "optimizer", "rest"]
    for i, step in enumerate(steps):  # the wait for data is the mean of all ranks', all else rank 0's
        assert abs(sum(line["m"][i] for line in parts["lines"]) - step["seconds"]) <= 1e-3 * step["seconds"] + step["data_wait_seconds"]
    assert [row[0] for row in page.table("rank")[1:]] in (["0", "1"], ["1", "0"])
    starts = page.table("start")
    assert [(row[6], row[7], row[8]) for row in starts[1:]] == [("0", "7", "finished"), ("7", "10", "finished")]
    assert ["lr", "0.001", "--lr"] in page.table("setting")


def test_a_report_page_is_self_contained_and_accessible(trained):
    folder, _ = trained
    page = Page((folder / "report.html").read_text())
    assert not [e for e in page.elements if {"src", "href", "action"} & e[1].keys() or e[0] in ("img", "link", "iframe", "object")]
    drawings = [attributes for tag, attributes in page.elements if tag == "svg" and attributes.get("role") == "img"]
    assert len(drawings) >= 7
    for drawing in drawings:
        assert drawing["aria-labelledby"] in page.ids and drawing["aria-describedby"] in page.ids
    assert [attributes for tag, attributes in page.elements if tag == "html"] == [{"lang": "en"}]
    assert not [tag for tag, attributes in page.elements if tag == "th" and "scope" not in attributes]


def test_report_off_writes_none_and_a_failed_report_is_no_error(tmp_path):
    quiet = (*SMALL, "--fake-size=47", "--valid-epochs=0", "--checkpoint-epochs=0", "--max-steps=1")
    assert "goodput" not in trainer_ranks.run(tmp_path / "off", *quiet, "--report=off", ranks=1)
    assert not (tmp_path / "off" / "report.html").exists()
    (tmp_path / "on" / "report.html" / "in the way").mkdir(parents=True)
    assert "no report: report: " in trainer_ranks.run(tmp_path / "on", *quiet, ranks=1)


def test_report_text_json_and_csv_agree(tmp_path):
    run = make_run(tmp_path / "run", "--steps=2000", "--ranks=8", "--ranks-every=10")
    text, found = report("--text", run).stdout, json.loads(report("--json", run).stdout)
    assert len(text.splitlines()) == 10 and max(map(len, text.splitlines())) < 250
    assert (found["step"], found["steps"], found["starts"], found["lost_steps"]) == (2000, 2000, 2, 200)
    assert found["straggler"]["rank"] == 6 and "straggler: rank 6 on node0001" in text
    assert 0 < found["goodput"] < 1 and found["node_hours"] == pytest.approx(2 * found["wall_seconds"] / 3600)
    rows = [line.split(",") for line in report("--csv", run).stdout.splitlines()]
    assert rows[0] == ["run", "curve", "first_step", "last_step", "mean", "least", "most"]
    assert {row[1] for row in rows[1:]} >= {"loss training", "loss validation", "step backward", "saves training waited"}
    assert max(int(row[3]) for row in rows[1:]) == 2000
    assert not (run / "report.html").exists()


def test_a_report_of_two_runs_shows_their_differences(tmp_path):
    one = make_run(tmp_path / "one", "--steps=500")
    other = make_run(tmp_path / "other", "--steps=700", "--lr=0.4")
    report(f"--output={tmp_path}/both.html", one, other)
    text = (tmp_path / "both.html").read_text()
    page = Page(text)
    assert page.problems == [] and len(page.ids) == len(set(page.ids)) and len(text) < 1_000_000
    assert page.table("setting") == [["setting", "one", "other"], ["lr", "0.1", "0.4"]]
    assert [line["n"] for line in page.charts()["Loss: training"]["lines"]] == ["one", "other"]


def test_unreadable_runs_are_reported_and_the_others_shown(tmp_path):
    run = make_run(tmp_path / "run", "--steps=50")
    with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"event":"step","step":51,"lo')
    done = report("--text", run, tmp_path / "none")
    assert "note        the last line has no end" in done.stdout
    assert re.search(r"rollcall: RUN: \S+none: cannot be read: No such file or directory; try ", done.stderr)
    assert "cannot be read" in report(tmp_path / "none", code=66).stderr
    assert "RUN is missing" in report(code=64).stderr
    if os.geteuid() != 0:
        (run / "metrics.jsonl").chmod(0)
        assert "Permission denied" in report(run, code=66).stderr


BEGIN = {"event": "begin", "schema": 1, "step": 0, "rollcall": "0.1.0", "libtorch": "2", "job": "7", "ranks": 2, "nodes": 2, "hosts": ["a", "b"],
         "ranks_of_hosts": [1, 1], "cpus_of_rank": 2, "backend": "gloo", "model": "resnet18", "data": "fake", "training_images": 40,
         "images_of_step": 8, "steps_of_epoch": 5, "epochs": 16, "max_steps": 0, "settings": {}, "environment": [], "time": 1000}


def step_record(step, seconds=1.0, **more):
    return {"event": "step", "step": step, "epoch": (step - 1) // 5, "loss": 2.0, "top1": 0.1, "top5": 0.5, "samples": 8, "learning_rate": 0.1,
            "images_per_second": 8, "data_wait_seconds": 0, "data_wait_fraction": 0, "steps": 1, "seconds": seconds, "forward_seconds": seconds,
            "backward_seconds": 0, "wait_seconds": 0, "optimizer_seconds": 0, "time": 1000 + step * seconds, **more}


def ranks_record(step, time, *forward):
    return {"event": "ranks", "step": step, "data_seconds": [0 for _ in forward], "forward_seconds": forward,
            "backward_seconds": [0 for _ in forward], "wait_seconds": [0 for _ in forward], "time": time}


def write_records(folder, *records):
    folder.mkdir(exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def test_progress_uses_the_end_record_if_no_step_was_recorded(tmp_path):
    end = {"event": "end", "ending": "finished", "step": 2, "data_wait_fraction": 0, "time": 1010}
    text = report("--text", write_records(tmp_path, {**BEGIN, "max_steps": 2}, end)).stdout
    assert re.search("^progress +step 2 of 2$", text, re.M) and "older rollcall" not in text, text
    assert "no step is recorded, because there were fewer steps than --log-steps" in text
    assert "older rollcall" in report("--text", write_records(tmp_path, BEGIN, {**step_record(1), "seconds": None}, end)).stdout


def test_the_state_of_a_run_follows_its_lease(tmp_path):
    def state():
        return re.search("^run +(.*)$", report("--text", run).stdout, re.M).group(1).split(": ", 1)[1]
    run = write_records(tmp_path, BEGIN, step_record(1))
    assert state().startswith("no end is recorded: it was killed or could not write; its last record is ")
    lease = run / "lease.json"
    lease.write_text("{}")
    assert state().startswith("running: its last record is ") and "killed" not in state()
    os.utime(lease, (1e9, 1e9))
    assert state().startswith("killed, lost or hanging: its lease was not renewed for ")
    write_records(tmp_path, BEGIN, step_record(1), {"event": "failed", "step": 1, "error": "rollcall: --data: x: gone", "time": 1002})
    assert state() == "failed: --data: x: gone"


@pytest.mark.parametrize("hosts, forward, records, named, left_out", [
    (2, (1.0, 1.5), 2, False, False),          # 18 s of two ranks
    (3, (1.0, 1.0, 1.12), 100, True, False),   # a ratio of 1.1 is told, and no reason to go without a node
    (2, (1.0, 1.6), 100, True, False),         # which of two is normal?
    (3, (1.0, 1.0, 1.6), 3, False, False),     # a pause
    (3, (1.0, 1.0, 1.6), 100, True, True)])
def test_excluding_a_node_is_advised_only_for_clear_stragglers(tmp_path, hosts, forward, records, named, left_out):
    begin = {**BEGIN, "ranks": hosts, "nodes": hosts, "hosts": list("abc")[:hosts], "ranks_of_hosts": [1] * hosts, "epochs": 1000}
    lines = [record for i in range(1, records + 1)
             for record in (step_record(i, seconds=9.0), ranks_record(i, 1000 + 9 * i, *[9 * own for own in forward]))]
    text = report("--text", write_records(tmp_path, begin, *lines)).stdout
    found = json.loads(report("--json", tmp_path).stdout)
    assert ((found["straggler"] or {}).get("rank") == hosts - 1) == named and ("straggler: rank" in text) == named, text
    assert ("--exclude=c" in " ".join(found["advice"])) == left_out and ("--exclude" in text) == left_out, found["advice"]


@pytest.mark.parametrize("settings, told", [({"checkpoint-mode": "async"}, False), ({"checkpoint-mode": "sync"}, True)])
def test_advice_does_not_repeat_settings_in_use(tmp_path, settings, told):
    save = {"event": "checkpoint", "step": 2, "written": True, "tries": 1, "stall_seconds": 5, "durable_seconds": 6, "time": 1008}
    begin = {**BEGIN, "settings": {name: {"value": value, "origin": "default"} for name, value in settings.items()}}
    text = report("--text", write_records(tmp_path, begin, step_record(1), step_record(2), save)).stdout
    assert "training waited for checkpoints: " in text and ("--checkpoint-mode=async" in text) == told, text


def test_a_curve_of_one_point_is_drawn(tmp_path):
    page = report("--output=-", write_records(tmp_path, BEGIN, step_record(3))).stdout
    loss = page[page.index('id="loss"'):page.index("</figure>", page.index('id="loss"'))]
    assert re.search(r'<path class="dots c0" d="M[\d.]+ [\d.]+h0"/>', loss)
    parts = page[page.index('id="step"'):page.index("</figure>", page.index('id="step"'))]
    x = [float(number) for number in re.search(r'<path class="area c1" d="M([\d.]+) [\d.]+L([\d.]+) ', parts).groups()]
    assert x[1] - x[0] > 600  # an area without a width is none


def test_a_loss_with_a_spike_has_a_logarithmic_axis(tmp_path):
    def axis():
        return Page(report("--output=-", tmp_path).stdout).charts()["Loss"]["log"]
    write_records(tmp_path, BEGIN, *[step_record(i, loss=900.0 if i == 7 else 2.0 + i / 50) for i in range(1, 41)])
    assert axis() and ">logarithmic<" in report("--output=-", tmp_path).stdout
    write_records(tmp_path, BEGIN, *[step_record(i, loss=7 - i / 10) for i in range(1, 41)])
    assert not axis()


def test_a_report_page_shows_results_epochs_command_line_and_warnings(tmp_path):
    begin = {**BEGIN, "command_line": ["--lr=0.1", "--data=<x>"], "warnings": ["SCRATCH is not set"], "model": "a\u202eb\u2066c"}
    warning = {"event": "warning", "text": "the checkpoint of step 9 was not written", "time": 1007}
    ranks = ranks_record(5, 1005, 1.0, 1.01)
    run = write_records(tmp_path, begin, *[step_record(i) for i in range(1, 11)], ranks, warning)
    text = report("--output=-", run).stdout
    page = Page(text)
    assert page.problems == [] and [row[0] for row in page.table("what")[1:4]] == ["run", "result", "progress"]
    assert text.index('id="s-summary"') < text.index('id="s-notes"' if 'id="s-notes"' in text else 'id="s-warnings"')
    assert "<pre>--lr=0.1 --data=&lt;x&gt;</pre>" in text
    assert "<li>SCRATCH is not set</li><li>the checkpoint of step 9 was not written</li>" in text
    assert ">epoch 1, 5 s</text>" in text and ">epoch 2, 10 s</text>" in text
    assert re.search(r"Report of 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} by", text)
    assert re.fullmatch(r"1970-01-01 \d\d:16:40 [+-]\d{4}", page.table("start")[1][1])
    assert "below 0.9 x median" in text and "2 x median and more" in text
    assert "\u202e" not in text and "\u2066" not in text and "a?b?c" in text


@pytest.mark.parametrize("steps_of_epoch, told", [(5, True), (4, False)])
def test_a_report_of_several_runs_marks_epochs_only_if_equal(tmp_path, steps_of_epoch, told):
    runs = [write_records(tmp_path / name, {**BEGIN, "steps_of_epoch": steps}, *[step_record(i) for i in range(1, 11)])
            for name, steps in (("a", 5), ("b", steps_of_epoch))]
    text = report("--output=-", *runs).stdout
    assert Page(text).problems == [] and (">epoch 1</text>" in text and ">epoch 2</text>" in text) == told


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (Debian's package chromium)")


def browse(page, folder, *options):
    """The page as a browser has it after its script ran; nothing on the console."""
    done = subprocess.run([CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0",
                           f"--user-data-dir={folder}/profile", "--virtual-time-budget=2000", *options, page.as_uri()],
                          capture_output=True, text=True, check=True, timeout=240)
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


# What a person does: points at the loss, steps on with a key, drags a range, shows all again.
USER_ACTIONS = """<script>
const svg = document.querySelector('#loss > svg'), told = {}, figure = document.getElementById('loss');
const box = svg.getBoundingClientRect(), pixels = box.width / 720;
const at = (x, y) => ({clientX: box.left + x * pixels, clientY: box.top + y * pixels, bubbles: true});
const line = () => svg.querySelector('.line').getAttribute('d');
const all = line();
svg.dispatchEvent(new PointerEvent('pointermove', at(400, 100)));
told.hover = figure.querySelector('.tip').textContent;
svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
told.key = document.getElementById('told').textContent;
svg.dispatchEvent(new PointerEvent('pointerdown', at(200, 100)));
svg.dispatchEvent(new PointerEvent('pointermove', at(400, 100)));
svg.dispatchEvent(new PointerEvent('pointerup', at(400, 100)));
told.zoomed = line() !== all;
told.ticks = [...svg.querySelectorAll('.grid text')].map(text => text.textContent);
svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}));
told.back = line() === all;
const ranks = document.querySelector('#ranks > svg');
if (ranks) {
  const area = ranks.getBoundingClientRect();
  ranks.dispatchEvent(new PointerEvent('pointermove', {clientX: area.left + area.width * .9, clientY: area.top + 5, bubbles: true}));
  told.rank = document.querySelector('#ranks .tip').textContent;
}
told.buttons = [...document.querySelectorAll('#loss button')].map(button => button.getAttribute('aria-label'));
told.scale = [...document.querySelectorAll('figure.chart > svg')].map(one => one.getScreenCTM().a);
told.wide = document.documentElement.scrollWidth <= innerWidth;
const result = document.createElement('pre'); result.id = 'result'; result.textContent = JSON.stringify(told); document.body.appendChild(result);
</script>"""


@needs_chromium
@pytest.mark.parametrize("size", ["1280,900", "390,844"])
def test_a_browser_shows_values_zooms_and_reports_no_error(tmp_path, size):
    run = make_run(tmp_path / "run", "--steps=5000", "--ranks=8", "--ranks-every=20")
    report(run)
    page = tmp_path / "used.html"
    page.write_text((run / "report.html").read_text().replace("</body>", USER_ACTIONS + "</body>"))
    dom = browse(page, tmp_path, "--dump-dom", f"--window-size={size}")
    told = json.loads(html.unescape(re.search(r'<pre id="result">(.*?)</pre>', dom).group(1)))
    assert re.match(r"step \d+ \(epoch [\d.]+, \d+ min \d\d s\)\n"
                    r"training: [\d.]+ \([\d.]+ to [\d.]+\)\nvalidation: [\d.]+ at \d+$", told["hover"])
    assert re.match(r"step \d+ \(epoch [^)]*\)\. training", told["key"]) and told["key"] != told["hover"]
    assert told["zoomed"] and told["back"] and told["wide"] and len(told["ticks"]) > 4
    assert re.match(r"rank 0, steps \d+-\d+\n[\d.]+ s of its own a step, [\d.]+ x median", told["rank"])
    assert told["scale"] == pytest.approx([1] * len(told["scale"]), abs=0.01)  # texts have their 12 pixels whatever the width
    assert told["buttons"] == ["Show all steps of Loss", "Download Loss as CSV"]


@needs_chromium
@pytest.mark.parametrize("size", ["1280,900", "390,844"])
def test_report_pages_render_on_wide_and_narrow_screens(tmp_path, size):
    one, two = make_run(tmp_path / "one", "--steps=300"), make_run(tmp_path / "two", "--steps=400", "--lr=0.2")
    for name, runs in (("one", (one,)), ("both", (one, two))):
        report(f"--output={tmp_path}/{name}.html", *runs)
        picture = tmp_path / f"{name}.png"
        browse(tmp_path / f"{name}.html", tmp_path, f"--screenshot={picture}", f"--window-size={size}")
        image = pytest.importorskip("PIL.Image").open(picture).convert("RGB")
        assert len(image.getcolors(1 << 24)) > 20
