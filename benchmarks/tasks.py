"""Five tasks as a new user would do them: runs the commands that docs/tasks.md shows, times them, and writes that page.

python benchmarks/tasks.py    needs PyTorch and Pillow; about two minutes on two quiet cores
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from record import processor, save

PAGE = Path(__file__).parent.parent / "docs" / "tasks.md"
FLIPPED = 0.05
MODEL = """import torch

def make(data):
    return torch.nn.Sequential(torch.nn.Linear(data.d, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
"""
DECIDE = """import csv

rows = list(csv.DictReader(open("found/labels.csv")))
for row in rows:
    if float(row["wrong"]) > 0.5:
        row["decision"] = row["suggested"]
with open("decided.csv", "w", newline="") as file:
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(rows)
"""
TRAIN = """import sys, torch
import overparam as op
from model import make

data = op.data.standardise(op.load("patients.csv", label="diagnosis"))
torch.manual_seed(0)
model, x, y = make(data), torch.tensor(data.X).float(), torch.tensor(data.y).float()
optimiser = torch.optim.SGD(model.parameters(), lr=float(sys.argv[1]))
for step in range(101):
    loss = torch.nn.functional.mse_loss(model(x)[:, 0], y)
    if step in (0, 10, 100):
        print(step, round(loss.item(), 3))
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
"""


def patients(path: Path, rows: int | None = None, leak: bool = False) -> None:
    """scikit-learn's breast cancer as people have tables: a head, words for labels; with a column that gives them away."""
    from sklearn.datasets import load_breast_cancer

    data: Any = load_breast_cancer()
    which = np.random.default_rng(0).permutation(len(data.target))[:rows]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(name.replace(" ", "_") for name in data.feature_names), *["code"] * leak, "diagnosis"])
        for i in which:
            label = str(data.target_names[data.target[i]])
            writer.writerow([*data.data[i], *[17 + 5 * int(data.target[i])] * leak, label])


def pictures(folder: Path) -> dict[str, str]:
    """scikit-learn's digits as a folder of images, a share of them in a wrong one: the true label of those files."""
    from PIL import Image
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    draw, wrong = np.random.default_rng(0), {}
    for i, (image, label) in enumerate(zip(data.images, data.target, strict=True)):
        given = int(label)
        if draw.random() < FLIPPED:
            given = (given + int(draw.integers(1, 10))) % 10
            wrong[f"{given}/{i:04}.png"] = str(label)
        place = folder / str(given)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15).astype(np.uint8)).save(place / f"{i:04}.png")
    return wrong


def ran(command: str, folder: Path) -> dict[str, Any]:
    """A command of the page: seconds of the processor, exit status and what it printed."""
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "COLUMNS": "100"}
    start = _processor_seconds()
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    seconds = _processor_seconds() - start
    return {
        "command": command,
        "seconds": round(seconds, 1),
        "status": done.returncode,
        "said": done.stdout,
        "error": done.stderr.strip(),
    }


def _processor_seconds() -> float:
    """Of all commands so far, all threads together: what they take does not depend on what else runs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def told(folder: Path) -> list[str]:
    """The verdict of a result."""
    values = json.loads((folder / "result.json").read_text(encoding="utf-8"))["values"]
    return list(values["verdict"]["sentences"])


def judge(folder: Path) -> dict[str, Any]:
    patients(folder / "patients.csv")
    one = ran("overparam analyze patients.csv --label diagnosis --out judged", folder)
    return {"task": "Judge a table", "steps": [one], "said": told(folder / "judged")}


def clean(folder: Path) -> dict[str, Any]:
    wrong = pictures(folder / "scans")
    (folder / "decide.py").write_text(DECIDE)
    steps = [ran("overparam analyze scans --out found", folder), ran("python decide.py", folder)]
    rows = list(csv.DictReader((folder / "decided.csv").open()))
    decided = {row["file"]: row["decision"] for row in rows if row["decision"]}
    steps.append(ran("overparam analyze scans --labels decided.csv --out mended", folder))
    return {
        "task": "Clean the labels of images", "steps": steps, "said": told(folder / "found"), "after": told(folder / "mended"),
        "images": len(rows), "flipped": len(wrong), "decided": len(decided), "mended": sum(wrong.get(f) == to for f, to in decided.items()),
        "harmed": sum(f not in wrong for f in decided),
    }  # fmt: skip


def more(folder: Path) -> dict[str, Any]:
    patients(folder / "few.csv", rows=150)
    one = ran("overparam analyze few.csv --label diagnosis --out few", folder)
    return {
        "task": "Ask for more data, or not",
        "steps": [one],
        "said": told(folder / "few"),
        "more": told(folder / "judged"),
    }


def rate(folder: Path) -> dict[str, Any]:
    (folder / "model.py").write_text(MODEL)
    (folder / "train.py").write_text(TRAIN)
    steps = [
        ran(
            "overparam foresee model.py:make patients.csv --label diagnosis --preprocess standardise --out foreseen",
            folder,
        )
    ]
    found = json.loads((folder / "foreseen" / "result.json").read_text(encoding="utf-8"))["values"]
    good, high = float(f"{found['rate']:.2g}"), float(f"{2 * found['diverges']['upper']:.2g}")
    steps += [ran(f"python train.py {good:g}", folder), ran(f"python train.py {high:g}", folder)]
    return {
        "task": "Choose a rate for a PyTorch model",
        "steps": steps,
        "said": told(folder / "foreseen"),
        "rate": good,
        "high": high,
    }


def gate(folder: Path) -> dict[str, Any]:
    patients(folder / "leaked.csv", leak=True)
    rule = '--fail-if "error.upper>0.1,copies>0,leak"'
    steps = [
        ran(f"overparam analyze {name}.csv --label diagnosis {rule} --out {name}-gate", folder)
        for name in ("patients", "leaked")
    ]
    return {"task": "A gate in CI", "steps": steps}


def shown(steps: list[dict[str, Any]]) -> list[str]:
    return ["```sh", *(step["command"] for step in steps), "```", ""]


def took(steps: list[dict[str, Any]]) -> str:
    return " and ".join(f"{step['seconds']:g} s" for step in steps if step["command"].startswith("overparam"))


def quoted(sentences: list[str], *words: str) -> list[str]:
    """Those sentences that have one of the words, as a list."""
    told = [line for line in sentences if not words or any(word in line for word in words)]
    return ["\n>\n".join(f"> {line}" for line in told), ""]


def page(rows: list[dict[str, Any]], machine: str) -> str:
    one, two, three, four, five = rows
    stable, high = (step["said"].split("\n") for step in four["steps"][1:])
    return "\n".join([
        "# Five tasks", "",
        "What people come with, the commands, what they see, and how long it takes. `python benchmarks/tasks.py` runs the commands of this page and writes it; "
        f"seconds are of the processor, all threads of a whole command together, its start included, on {machine}.", "",
        "## Judge a table", "", "A CSV file with a head, and the column to learn. Ids, dates, words and missing values are dealt with, and said.", "",
        *shown(one["steps"]), f"After {took(one['steps'])} the terminal says, and `judged/report.html` shows:", "", *quoted(one["said"]),
        "Read the first line: the share of new rows that a well-tuned model will get wrong, with its interval. The second says which kind of model to take. "
        "What follows is what to look at before anybody trains.", "",
        "## Clean the labels of images", "",
        f"A folder with a folder a class (`scans/7/0031.png`): {two['images']:,} images, of which {two['flipped']} were put in a wrong folder.", "",
        *shown(two["steps"][:1]), f"After {took(two['steps'][:1])}:", "", *quoted(two["said"], "xpect", "wrong (", "labels.csv"),
        "The page shows the worst ten; `found/labels.csv` has every image with its file, the label it should rather have, and an empty column `decision`. Fill that by "
        "hand (`keep`, `drop` or a label) in any spreadsheet, or take every suggestion that is rather right than wrong:", "",
        "```text", *DECIDE.strip().split("\n"), "```", "", *shown(two["steps"][1:]),
        f"That changed {two['decided']} labels: {two['mended']} of the {two['flipped']} wrong ones are now right, {two['harmed']} right ones were changed. Read back, in "
        f"{took(two['steps'][2:])}:", "", *quoted(two["after"], "xpect", "wrong labels", "of the labels are wrong"),
        f"{two['flipped'] - two['mended']} wrong labels are left, more than the second look says: the models that decided have no quarrel with their own decisions. Look "
        "further down the first list for those. "
        "For a table `corrected.csv` is written too; of images move or leave out the files that `decided.csv` names.", "",
        "## Ask for more data, or not", "", "The same command answers. Of 150 rows, and of all of them:", "",
        *shown(three["steps"]), *quoted(three["said"], "ore data"), "and of the whole table above:", "", *quoted(three["more"], "ore data"),
        f"That took {took(three['steps'])}. The figure under *Is more data worth it?* has the curve from a sixteenth of the rows on; [its page](growth.md) says how often the "
        "interval held.", "",
        "## Choose a rate for a PyTorch model", "", "PyTorch has to be installed (`pip install '.[torch]'`). A function gives the model:", "",
        "```text", *["# model.py", *MODEL.strip().split("\n")], "```", "",
        *shown(four["steps"][:1]), f"After {took(four['steps'][:1])}:", "", *quoted(four["said"]),
        f"Trained with PyTorch at {four['rate']:g}, the mean squared error after 0, 10 and 100 steps is {', '.join(line.split()[1] for line in stable if line)}; at {four['high']:g}, "
        f"twice the upper end of the range, {', '.join(line.split()[1] for line in high if line)}. For the cross-entropy add `--objective cross-entropy --probe`: short runs measure it.", "",
        "## A gate in CI", "", "Names are keys of `result.json`; a comma is *or*; what cannot be told counts as a breach.", "",
        *shown(five["steps"]), f"The first ends with status {five['steps'][0]['status']}. The second has a column that gives the diagnosis away: status {five['steps'][1]['status']}, and one "
        "line that says why:", "", "```text", five["steps"][1]["error"].splitlines()[-1], "```", "",
        f"{took(five['steps'])}. Two versions of a table: `overparam diff before.csv after.csv --key id`.", "",
    ])  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "bin").mkdir()
        for name, words in (("overparam", "-m overparam"), ("python", "")):
            script = folder / "bin" / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            script.chmod(0o755)
        rows = [task(folder) for task in (judge, clean, more, rate, gate)]
    machine = processor()
    save("tasks", machine, rows)
    PAGE.write_text(page(rows, machine), encoding="utf-8")


if __name__ == "__main__":
    main()
