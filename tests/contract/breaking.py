"""`python -m tests.contract.breaking`: break the package once for every promise of the contract tests and see them fail.

Each row of `BREAKS` is a small bug. It is put into a copy of the package, never into the tree, and the one test that is
there to find it is run on that copy. The exit code is 1 where a test passed all the same, or a text is no longer found.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "src" / "overparam"


@dataclass(frozen=True)
class Break:
    """A bug, and the test that must find it."""

    test: str
    """With the cheapest case that shows it."""
    bug: str
    file: str
    old: str
    new: str

    @property
    def function(self) -> str:
        return self.test.partition("[")[0]

    def put_into(self, whole: str) -> str:
        """The text of the file with the bug in it; a ValueError where what it replaces is not there exactly once."""
        if (count := whole.count(self.old)) != 1:
            raise ValueError(f"{self.file} has the text to replace {count} times, expected once: {self.old!r}")
        return whole.replace(self.old, self.new)


SAVED, DOCUMENT = "test_saved_and_read_it_is_the_same", "test_the_document_is_plain_and_says_what_made_it"
PAGE, BARE = "test_its_page_shows_every_section_and_its_card_the_verdict", "test_without_weights_it_is_still_read"
DAMAGED, OLD = "test_a_damaged_folder_is_one_line", "test_a_folder_of_the_first_edition_is_read_shown_and_saved_again"
SECOND = "test_a_folder_of_the_second_edition_is_read_shown_and_saved_again"
PLAN, PROGRESS = "test_the_plan_is_numbers_and_words", "test_progress_rises_to_its_end"
STOPPED, REMADE = "test_stopped_it_goes_on_and_ends_in_the_same_numbers", "test_a_damaged_part_is_made_again"
SHARED, FORMS = "test_questions_that_differ_in_a_function_share_no_part", "test_data_comes_in_all_its_forms"
BAD_DATA, BAD_OPTION = "test_bad_data_is_one_line", "test_bad_options_are_one_line"
COMMAND = "test_the_command_line_asks_the_same_question"
CLUSTER, NAMED = "test_the_numbers_are_those_without_a_cluster", "test_the_command_line_names_a_cluster"

BREAKS = (
    Break(
        f"{SAVED}[analysis]", "arrays are stored in single precision", "core/records.py",
        "            arrays[path] = value\n", "            arrays[path] = value.astype(np.float32)\n",
    ),
    Break(
        f"{SAVED}[analysis]", "the seed is not read back", "core/provenance.py",
        "if key in fields}", 'if key in fields and key != "seed"}',
    ),
    Break(
        f"{SAVED}[trajectory]", "only some records of a run are read back", "core/records.py",
        'if name.startswith(f"{path}.")}', 'if name.startswith(f"{path}.l")}',
    ),
    Break(
        f"{SAVED}[analysis]", "no page is written", "frame/answer.py",
        "            write_page(path, samples=samples)\n", "",
    ),
    Break(
        f"{DOCUMENT}[analysis]", "what is not finite is not made null", "core/folder.py",
        "if isinstance(value, float) and not math.isfinite(value):\n        return None",
        "if isinstance(value, float) and not math.isfinite(value):\n        return value",
    ),
    Break(
        f"{DOCUMENT}[analysis]", "the time it took is not told", "frame/job.py",
        "seconds=provenance.seconds + made.before", "seconds=made.before",
    ),
    Break(
        f"{DOCUMENT}[analysis]", "what was asked for is not told", "frame/job.py",
        "watch.provenance(self._provenance.configuration, ", "watch.provenance({}, ",
    ),
    Break(
        f"{DOCUMENT}[trajectory]", "a verdict that is no field is not stored", "frame/answer.py",
        '        values["verdict"] = take_apart(self.verdict)[0]\n', "",
    ),
    Break(
        f"{PAGE}[analysis]", "the last section is not on the page", "report/page.py",
        "draw, samples) for index, section in enumerate(sections))",
        "draw, samples) for index, section in enumerate(sections[:-1]))",
    ),
    Break(
        f"{PAGE}[analysis]", "the card begins below the verdict", "report/page.py",
        '{"".join(inside[:1])}{"".join(folded)}', '{"".join(folded)}',
    ),
    Break(
        f"{PAGE}[trajectory]", "the page of a run does not say its verdict", "training/trajectory.py",
        "            *self.verdict.section.blocks,\n", "",
    ),
    Break(
        f"{PAGE}[analysis]", "figures are drawn and left out", "report/page.py",
        "            inside.append(draw(block))", "            draw(block)",
    ),
    Break(
        f"{BARE}[trajectory]", "weights are saved all the same", "frame/answer.py",
        "saved = self if weights else self.without_weights()", "saved = self",
    ),
    Break(
        f"{BARE}[trajectory]", "weights along the run are saved all the same", "training/trajectory.py",
        'for name, values in self.records.items() if name != "weights"}', "for name, values in self.records.items()}",
    ),
    Break(
        f"{BARE}[run-comparison]", "the weights of a run inside a result are saved", "analysis/run_comparison.py",
        "return replace(self, run=self.run.without_weights())", "return self",
    ),
    Break(
        f"{DAMAGED}[analysis]", "arrays of another result are taken", "core/folder.py",
        "    if files.sha256(content) != checksum:\n", "    if not content:\n",
    ),
    Break(
        f"{OLD}[study]", "the first edition is refused", "core/folder.py", "READABLE = (1, 2)", "READABLE = (2,)"
    ),
    Break(
        f"{SECOND}[study]", "the second edition is refused", "core/folder.py", "READABLE = (1, 2)", "READABLE = (1,)"
    ),
    Break(
        f"{OLD}[sweep]", "a kind of the first edition is not brought up to date", "frame/upgrades.py",
        '    "sweep": lambda parts: replace(parts, values=_run(parts.values)),\n', "",
    ),
    Break(
        f"{OLD}[run-comparison]", "weights of the first edition are lost", "frame/upgrades.py",
        'run["params"] = {part: _renamed(outline, name) for part, outline in run["params"].items()}',
        'run["params"] = {part: None for part in run["params"]}',
    ),
    Break(
        f"{PLAN}[analyze]", "parts that are not kept are not planned", "frame/job.py",
        "measured.get(part.name, part.seconds) for part in self.parts}",
        "measured.get(part.name, part.seconds) for part in self.parts if part.kept}",
    ),
    Break(
        f"{PLAN}[analyze]", "the plan has no seconds in JSON", "frame/job.py",
        '            "seconds": self.seconds,\n', "",
    ),
    Break(
        f"{PLAN}[analyze]", "the plan in words does not say of what", "frame/job.py",
        'lines = [self.what, f"  runs on', 'lines = [f"  runs on',
    ),
    Break(
        f"{PROGRESS}[analyze]", "every part begins at 0 again", "frame/job.py",
        "self.told = min(total, max(self.told, done + share * self.seconds[part.name]))",
        "self.told = min(total, share * self.seconds[part.name])",
    ),
    Break(
        f"{PROGRESS}[analyze]", "progress stands still until the end", "frame/job.py",
        "job._progress(self.told, total, what or part.name)", "job._progress(0.0, total, what or part.name)",
    ),
    Break(
        f"{PROGRESS}[audit]", "progress does not come to its end", "frame/job.py",
        '        self._progress(total, total, "done")\n', "",
    ),
    Break(
        f"{STOPPED}[analyze]", "ctrl-C is swallowed", "frame/job.py",
        "            raise self._interrupted(stop, made) from None\n", "            return None\n",
    ),
    Break(
        f"{STOPPED}[analyze]", "finished parts are not kept", "frame/job.py",
        "        if keeping.place is not None:\n            mark =", "        if False:\n            mark =",
    ),
    Break(
        f"{CLUSTER}[audit]", "no part is made on the cluster", "frame/job.py",
        "                if self._cluster is not None:\n                    from", "                if False:\n                    from",
    ),
    Break(
        NAMED, "the cluster that was named is not used", "cli/driver.py",
        "            if given.cluster is not None:\n                job =", "            if False:\n                job =",
    ),
    Break(
        f"{STOPPED}[analyze]", "kept parts are made again", "frame/job.py",
        "kept = self._taken_up(part) if part.kept else None", "kept = None",
    ),
    Break(
        f"{STOPPED}[analyze]", "a kept part comes back in single precision", "frame/keeping.py",
        "return cls(folder.arrays_from(arrays, path), reading.json_from(about, path))",
        "return cls({n: np.float32(a) for n, a in folder.arrays_from(arrays, path).items()}, reading.json_from(about, path))",
    ),
    Break(
        f"{STOPPED}[analyze]", "parts are not forgotten", "frame/keeping.py",
        "            self._path(name, mark).unlink(missing_ok=True)\n", "",
    ),
    Break(
        SHARED, "functions are told apart by their names", "frame/keeping.py",
        '("function", thing.__code__, ', '("function", thing.__name__, ',
    ),
    Break(
        f"{REMADE}[analyze]", "the checksum of a part is not looked at", "frame/keeping.py",
        'if head != f"{MAGIC} {files.sha256(body)}".encode():', "if not head.startswith(MAGIC.encode()):",
    ),
    Break(
        f"{REMADE}[analyze]", "a damaged part ends the work", "frame/keeping.py",
        "except (FileNotFoundError, NotADirectoryError, ValueError):", "except (FileNotFoundError, NotADirectoryError):",
    ),
    Break(
        f"{FORMS}[analyze]", "the last column is the label, whatever is asked", "data/loading.py",
        "        return read_frame(data, **columns)", '        return read_frame(data, **{**columns, "label": None})',
    ),
    Break(
        f"{FORMS}[analyze]", "options of reading are dropped", "analysis/data_analysis.py",
        "key=key, **reading)", "key=key)",
    ),
    Break(
        f"{FORMS}[train]", "the seed of the question does not order its table", "analysis/run_comparison.py",
        "as_dataset(data, y, key=seed, **reading)", "as_dataset(data, y, key=seed + 1, **reading)",
    ),
    Break(
        f"{BAD_DATA}[NaN-train]", "NaN is let in", "data/dataset.py", "    checks.require_finite(array, name)\n", "",
    ),
    Break(
        f"{BAD_DATA}[one class-audit]", "labels of one class are let in", "data/loading.py",
        "    if len(there) < 2:\n", "    if len(there) < 1:\n",
    ),
    Break(
        f"{BAD_DATA}[labels of another length-landscape]", "labels of another length are let in", "data/labels.py",
        "if array.ndim != 1 or len(array) != n:", "if array.ndim != 1:",
    ),
    Break(
        f"{BAD_DATA}[no rows-compare]", "no rows at all are let in", "data/loading.py",
        "    if len(raw.X) < 2:\n", "    if len(raw.X) < 0:\n",
    ),
    Break(
        f"{BAD_DATA}[words-analyze]", "what is wrong is said in two lines", "data/loading.py",
        "        raise missing_named(text)\n", '        raise FileNotFoundError(f"{missing_named(text)}\\nsee above")\n',
    ),
    Break(
        f"{BAD_OPTION}[train-no such loss]", "any loss is let in", "training/algorithm.py",
        'return checks.one_of(loss, "loss", ("sum", "mean"), "a rate refers to the sum (the papers\') or the mean over rows")',
        "return loss",
    ),
    Break(
        f"{BAD_OPTION}[train-no steps]", "negative steps are let in", "analysis/run_comparison.py",
        'whole_number(steps, "steps")), seed_of(key)', "int(steps)), seed_of(key)",
    ),
    Break(
        f"{BAD_OPTION}[audit-no such effort]", "an unknown effort is the usual one", "audits/preparation.py",
        "    if effort not in EFFORTS:\n        raise ", '    if effort not in EFFORTS:\n        return EFFORTS["usual"]\n        raise ',
    ),
    Break(
        f"{BAD_OPTION}[landscape-no such plane]", "any plane is let in", "landscapes/surveying.py",
        '    one_of(plane, "plane", PLANES)\n', "",
    ),
    Break(
        f"{BAD_OPTION}[reproduce-no such scale]", "an unknown scale is a KeyError", "studies/study.py",
        '    checks.one_of(scale, "scale", SCALES)\n', "",
    ),
    Break(
        f"{BAD_OPTION}[analyze-few digits]", "a precision that is not used is let in", "analysis/data_analysis.py",
        '    one_of(dtype, "dtype", ("float64",), "an analysis computes in float64 only")\n', "",
    ),
    Break(
        f"{BAD_OPTION}[compare-no seeds]", "no seeds at all are let in", "analysis/comparison.py",
        'seeds = whole_number(seeds, "seeds", least=1)', 'seeds = whole_number(seeds, "seeds")',
    ),
    Break(
        f"{COMMAND}[train]", "--steps is not handed on", "cli/train.py", "        steps=steps,\n", "",
    ),
    Break(
        f"{BAD_OPTION}[foresee-no such optimiser]", "any optimiser is taken for SGD", "analysis/model_forecast.py",
        'elif not isinstance(optimizer, str) or optimizer.lower() not in ("sgd", "plain"):', "elif False:",
    ),
    Break(
        f"{COMMAND}[audit]", "--effort is not handed on", "cli/audit.py", "        effort=effort,\n", "",
    ),
    Break(
        f"{COMMAND}[landscape]", "--test 0 holds rows out", "cli/driver.py",
        'options["test"] = None if test == "0" else count_or_share(test)', 'options["test"] = 0.5 if test == "0" else None',
    ),
    Break(
        f"{COMMAND}[analyze]", "more than JSON is printed", "cli/driver.py",
        "    else:\n        display.summary(answer, where)", "    display.summary(answer, where)",
    ),
    Break(
        f"{COMMAND}[analyze]", "parts stay beside the answer", "cli/driver.py",
        "    else:\n        job.forget()\n", "",
    ),
    Break(
        f"{COMMAND}[analyze]", "a plan is run", "cli/driver.py",
        "                typer.echo(words)\n                return\n", "                typer.echo(words)\n",
    ),
    Break(
        "test_every_question_is_in_the_table", "a question is in no table", "analysis/data_difference.py",
        "diff = verb(prepare_diff)\n", "diff = verb(prepare_diff)\nread_again = verb(as_dataset)\n",
    ),
)  # fmt: skip


def contract_tests() -> dict[str, Path]:
    """Every test function of the contract, and its file."""
    found = {}
    for path in sorted(HERE.glob("test_*.py")):
        if path.name != "test_breaking.py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
            found |= {name: path for name in names if name.startswith("test_")}
    return found


def run_tests(tests: Sequence[str], source: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """pytest's exit code on a copy of the package, and what it printed."""
    files = contract_tests()
    named = [f"{files[test.partition('[')[0]]}::{test}" for test in dict.fromkeys(tests)]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0", "--tb=short", *named]
    done = subprocess.run(
        command, cwd=ROOT, env={**environment, "PYTHONPATH": str(source)}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def verdict(code: int, printed: str) -> str:
    """What became of a break, in a few words."""
    if code == 0:
        return "SURVIVED"
    if code != 1:
        return f"DID NOT RUN (pytest: {code})"
    lines = [line[1:].strip() for line in printed.splitlines() if line.startswith("E ")]
    return f"failed as it should: {lines[0][:90] if lines else ''}"


def write(path: Path, text: str) -> None:
    """A new text of a module, and no compiled one of the old."""
    path.write_text(text, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def main() -> int:
    """Break, test, mend, and tell; 1 where a bug was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.contract.breaking", description=__doc__)
    parser.add_argument("--only", default="", help="breaks whose test or bug holds these words")
    chosen = [each for each in BREAKS if parser.parse_args().only in f"{each.test} {each.bug}"]
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "src"
        shutil.copytree(PACKAGE, source / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        kept = {"JAX_COMPILATION_CACHE_DIR": f"{place}/programs", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
        environment = {**os.environ, **kept, "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
        code, printed = run_tests([each.test for each in chosen], source, environment)
        if code:
            print(f"the tests fail without any break:\n{printed}")
            return 1
        for each in chosen:
            file, start = source / PACKAGE.name / each.file, time.perf_counter()
            whole = file.read_text(encoding="utf-8")
            try:
                write(file, each.put_into(whole))
                found = verdict(*run_tests([each.test], source, environment))
            except ValueError as error:
                found = f"NO LONGER FITS: {error}"
            write(file, whole)
            failed += not found.startswith("failed")
            print(f"{each.test:<90} {each.bug:<50} {found} ({time.perf_counter() - start:.0f} s)", flush=True)
    print(f"{len(chosen)} breaks, {failed} not found")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
