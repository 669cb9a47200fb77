"""How every question is asked on the command line: read, plan, run, save, show. Written once, over Jobs.

A command is a function that takes `given` and its own options and gives a Job; `question` adds the options that all
questions share, and those of data, and does the rest.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import json
import os
import re
import sys
import tempfile
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final

import typer
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from overparam.core.checks import parse_names, parse_numbers
from overparam.core.folder import REPORT, RESULT
from overparam.core.progress import Progress, silent
from overparam.core.reading import content_of, json_from, place_of
from overparam.core.words import byte_size, duration, in_one_line
from overparam.frame.answer import NOTE

if TYPE_CHECKING:
    from overparam.data import Dataset
    from overparam.frame import AbstractAnswer, Job

LONG = 10.0
"""Seconds from which a plan is shown before the work starts."""
OUT = Path("overparam-out")
"""Where results go if no folder is named: OUT/COMMAND-DATA."""
COLOURS = {"good": "green", "warning": "yellow", "bad": "red"}
"""Of the box around a verdict, by its tone."""

Data = Annotated[str, typer.Argument(help="A name (`overparam datasets`), a file or a folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print result.json and nothing else.")]
NoSamples = Annotated[bool, typer.Option("--no-samples", help="Keep the data's own rows and labels out of the page.")]
Preprocess = Annotated[str, typer.Option("--preprocess", help="auto, none, unit, standardise, …: how rows are scaled.")]
MaxRows = Annotated[int | None, typer.Option("--max-rows", "--rows", help="Most rows to use.")]


class Stopped(Exception):
    """Ctrl-C, with the one line to print; the exit code is 130."""


class Breached(Exception):
    """What --fail-if names is so: the line to print; the exit code is 3."""


def _data_options(
    label: Annotated[
        str | None,
        typer.Option(
            "--label", "--target", help="The label column of a table; the last if not given. Several targets: a,b."
        ),
    ] = None,
    group: Annotated[str | None, typer.Option("--group", help="A column whose groups are never split.")] = None,
    classes: Annotated[
        str | None, typer.Option("--classes", help="Classes to keep, such as 0,1; the first is +1.")
    ] = None,
    train: Annotated[int | None, typer.Option("--train", help="Most training rows to read.")] = None,
    test: Annotated[
        str | None, typer.Option("--test", help="Test rows: a count, a share below 1, or 0 for none.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="classes or regression, where the labels do not tell.")
    ] = None,
    missing: Annotated[
        str, typer.Option("--missing", help="error, mean or drop: what to do with missing values.")
    ] = "error",
    test_file: Annotated[
        str | None,
        typer.Option("--test-file", help="Test rows in a file or folder of their own, with the same columns."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            help="A .npy file of features computed of the rows, used in their place; two for a test set: a,b.",
        ),
    ] = None,
    image_size: Annotated[
        str | None, typer.Option("--image-size", help="Of images in folders: 32, or 28x20; the commonest if not given.")
    ] = None,
    ids: Annotated[
        str | None, typer.Option("--ids", help="drop or keep columns of whole numbers that count; drop if not given.")
    ] = None,
) -> None:
    """The options of reading data; a signature alone."""


def _shared_options(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for result.json, arrays.npz and report.html; if not given, in overparam-out, called COMMAND-DATA.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let the result take the place of another question's.")
    ] = False,
    json_only: Json = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw.")] = 0,
    device: Annotated[
        str | None, typer.Option("--device", help="cpu, gpu, jax or all; the best there is if not given.")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype", help="float64, or where a question allows it float32, int32 or tf32; its own if not given."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", help="A dask scheduler such as tcp://host:8786, or local: its workers share the work."
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show what it will cost and stop.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Use the parts that are finished, or make all of them again.")
    ] = True,
    no_samples: NoSamples = False,
    fail_if: Annotated[
        str | None,
        typer.Option("--fail-if", help="Exit with 3 where one of these is so, such as 'error>0.1,leak'."),
    ] = None,
) -> None:
    """The options of every question; a signature alone."""


@final
@dataclass(frozen=True)
class Given:
    """What a command was given beside its own options: the data and its options, and those of every question."""

    data: str
    reading: dict[str, Any]
    out: Path
    overwrite: bool
    json_only: bool
    seed: int
    device: str | None
    dtype: str | None
    plan: bool
    resume: bool
    no_samples: bool
    fail_if: str | None = None
    cluster: str | None = None
    progress: Progress = field(default=silent, repr=False)
    asked: dict[str, Any] = field(default_factory=dict)
    """What else the result should say was asked; how the data were read is said of all."""
    names: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What arguments of Python are called here."""

    @property
    def shared(self) -> dict[str, Any]:
        """What every `prepare` takes; the precision only where one was named."""
        own = {} if self.dtype is None else {"dtype": self.dtype}
        place = None if self.plan and not self.out.exists() else self.out  # a plan leaves no trace
        return {"key": self.seed, "device": self.device, "place": place, "progress": self.progress, **own}

    def read(self, seed: int | None = None) -> Dataset:
        """The data set that was named."""
        from overparam.data import load

        options = {name: value for name, value in self.reading.items() if value is not None}
        options["classes"] = _class_names(options.get("classes"))
        test = options.get("test")
        options["test"] = None if test == "0" else count_or_share(test)
        found = load(self.data, key=self.seed if seed is None else seed, **options)
        return found.replace(test=None) if test == "0" and found.test is not None else found


def question(
    name: str, data: str | None, kind: str, *, folder: str = "", keeps: bool = False
) -> Callable[[Callable[..., Job[Any] | None]], Callable[..., None]]:
    """A command from a function `(given, …) -> Job`; it may give None where it has answered already.

    Args:
        name: of the command.
        data: the data set if none is named; None for a command without data.
        kind: of the answer.
        folder: the name of the folder of results, made of the command's own options; NAME-DATA if not given.
        keeps: whether finished parts stay when the answer is saved, since they serve other settings too, and every
            figure is written as SVG and PNG, where matplotlib is there.
    """

    def decorate(prepare: Callable[..., Job[Any] | None]) -> Callable[..., None]:
        own = [p for p in _parameters(prepare) if p.name != "given"]
        first = [p for p in own if _is_argument(p)]
        options = [p for p in own if not _is_argument(p)]
        reading = _parameters(_data_options) if data is not None else []
        shared = _parameters(_shared_options)
        named = [inspect.Parameter("data", KEYWORD, default=data, annotation=Data)] if data is not None else []
        every = [*first, *named, *options, *reading, *shared]

        @functools.wraps(prepare)
        def command(**values: Any) -> None:
            values = {name: place_of(each) if isinstance(each, Path) else each for name, each in values.items()}
            asked = {p.name: values.pop(p.name) for p in shared}
            found = {p.name: values.pop(p.name) for p in reading}
            source = values.pop("data", "")
            own = folder.format(**values) if folder else f"{name}-{_folder_name(source)}"
            asked["out"] = asked["out"] or OUT / own
            given = Given(source, found, **asked)
            names = option_names({p.name: p for p in every})
            with _in_options(names):
                _ask(
                    replace(given, names=names),
                    lambda ready: prepare(ready, **values),
                    kind,
                    values.get("weights", True),
                    keeps,
                )

        command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in every}
        return command

    return decorate


KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function, with their annotations as objects."""
    bare = functools.partial(
        function
    )  # an object whose annotations may be set: what a command gives need not exist here
    bare.__annotations__ = {
        name: kind for name, kind in function.__annotations__.items() if name not in ("return", "given")
    }
    hints = typing.get_type_hints(bare, globalns=function.__globals__, include_extras=True)
    return [
        p.replace(annotation=hints.get(p.name, Any), kind=KEYWORD)
        for p in inspect.signature(function).parameters.values()
    ]


def _is_argument(parameter: inspect.Parameter) -> bool:
    return any(isinstance(extra, typer.models.ArgumentInfo) for extra in typing.get_args(parameter.annotation)[1:])


class Display:
    """Progress on standard error, results on standard output; nothing of either when `quiet`."""

    def __init__(self, quiet: bool = False, names: Mapping[str, str] | None = None) -> None:
        self._quiet, self._names = quiet, names or {}
        self._errors = Console(stderr=True)
        self._output = Console()

    def plain(self, words: str) -> None:
        if not self._quiet:
            self._errors.print(words, markup=False, highlight=False)

    @contextlib.contextmanager
    def progress(self) -> Iterator[Progress]:
        """A bar with the time left, where the terminal shows one."""
        if self._quiet or not self._errors.is_terminal:
            yield silent
            return
        columns = (TextColumn("{task.description:<18}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Bars(*columns, console=self._errors, transient=True) as bars:
            bar = bars.add_task("reading", total=1.0)
            yield lambda done, total, what: bars.update(bar, completed=done, total=total, description=what)

    def summary(self, answer: AbstractAnswer, where: Path) -> None:
        """The verdict in a box, then where the page is, what was done and what it cost."""
        body = Text("\n".join(f"• {in_one_line(in_options(line, self._names))}" for line in answer.verdict.sentences))
        self._output.print(Panel(body, title=Text(answer.title), border_style=COLOURS[answer.verdict.tone]))
        cost = answer.provenance
        page = where / REPORT
        done = [answer.done, f"{duration(cost.seconds)} on {cost.device}"]
        done += [f"peak memory {byte_size(cost.peak_memory)}"] if cost.peak_memory else []
        for line in (str(page if page.exists() else where / NOTE), ", ".join(word for word in done if word)):
            self._output.print(line, markup=False, highlight=False, soft_wrap=True)


def _ask(given: Given, prepare: Callable[[Given], Job[Any] | None], kind: str, weights: bool, keeps: bool) -> None:
    """Plan, run, save and show one question."""
    from overparam.core.progress import Interrupted
    from overparam.frame.answer import class_of
    from overparam.frame.conditions import breaches, parse_conditions, require_names

    display = Display(quiet=given.json_only, names=given.names)
    conditions = () if given.fail_if is None else parse_conditions(given.fail_if)
    if conditions:
        require_names(conditions, class_of(kind))
    try:
        with display.progress() as progress:
            job = prepare(replace(given, progress=progress))
            if job is None:
                return
            if given.cluster is not None:
                job = job.on(given.cluster)
            if given.plan:
                words = json.dumps(job.plan.to_json()) if given.json_only else str(job.plan)
                typer.echo(words)
                return
            require_writable(given.out)
            _require_own_place(given, kind, job)
            job.plan.require_memory()
            if not given.resume:
                job.forget()
            if job.plan.seconds > LONG:
                display.plain(str(job.plan))
            answer = job.run()
    except Interrupted as stop:
        how = "finished parts are kept, and the same command goes on from there"
        raise Stopped(f"{stop.head}; {how if stop.kept else 'nothing was finished yet: start again'}") from None
    answer = _with_asked(answer, given)
    where = answer.save(given.out, samples=not given.no_samples, weights=weights)
    if keeps:
        _draw(answer, where / "figures")
    else:
        job.forget()
    if given.json_only:
        print_result(where)
    else:
        display.summary(answer, where)
    if found := breaches(conditions, answer):
        raise Breached(f"--fail-if: {'; '.join(found)}")


def _with_asked(answer: Any, given: Given) -> Any:
    """The answer with how its data were read, so that result.json says all that makes it again."""
    asked = {name: value for name, value in {**given.reading, **given.asked}.items() if value is not None}
    made = replace(answer.provenance, configuration={**answer.provenance.configuration, **asked})
    return replace(answer, provenance=made)


def _draw(answer: Any, place: Path) -> None:
    """Every figure as SVG and PNG; nothing without matplotlib."""
    import importlib.util

    from overparam.report import export_figures

    if importlib.util.find_spec("matplotlib") is not None:
        for kind in ("svg", "png"):
            export_figures(answer.parts(), place, kind=kind)


def _require_own_place(given: Given, kind: str, job: Job[Any]) -> None:
    """Refuse to write over the result of another question; the same one of the same data replaces its own answer."""
    if given.overwrite or not (given.out / RESULT).exists():
        return
    from overparam.core import folder

    try:
        there = folder.read(given.out)
    except (ValueError, OSError) as error:  # of another version, or damaged: whoever keeps it may still want it
        raise ValueError(f"{error}; pass --overwrite to put this result in its place, or another --out") from None
    held = there.provenance.configuration
    same = all(held.get(name) == job.about.get(name) for name in ("data", "network", "study", "scale"))
    if there.kind != kind or not same:
        raise ValueError(f"{given.out} holds another result ({there.title}); pass --overwrite, or another --out")


def print_result(place: Path) -> None:
    """result.json on standard output, as it stands in the folder."""
    document = json_from(content_of(place / RESULT), place / RESULT)
    json.dump(document, sys.stdout, allow_nan=False, ensure_ascii=False)
    sys.stdout.write("\n")


def require_writable(place: Path, option: str = "--out") -> None:
    """One line where a folder cannot be made or written to, before hours of work; leaves no trace."""
    missing = [folder for folder in (place, *place.parents) if not os.path.lexists(folder)]
    made: list[Path] = []
    try:
        for folder in reversed(missing):
            folder.mkdir()
            made.append(folder)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTDIR):
            raise ValueError(f"{option} is {place}, and that is a file or lies in one; name a folder") from None
        why = (error.strerror or str(error)).lower()
        raise ValueError(f"the folder {place} cannot be written ({why}); choose another {option}") from None
    finally:
        for folder in reversed(made):
            folder.rmdir()


def option_names(parameters: Mapping[str, inspect.Parameter]) -> dict[str, str]:
    """What arguments of Python are called among the options of a command."""
    names = {"key": "--seed", "place": "--out", "source": "DATA", "data": "DATA", "how": "--preprocess"}
    for name, parameter in parameters.items():
        for extra in typing.get_args(parameter.annotation)[1:]:
            if isinstance(extra, typer.models.OptionInfo):
                said = [word for word in (extra.default, *(extra.param_decls or ())) if str(word).startswith("--")]
                names[name] = str(said[0]).split("/")[0]
            elif isinstance(extra, typer.models.ArgumentInfo):
                names[name] = name.upper()
    return names


@contextlib.contextmanager
def _in_options(names: Mapping[str, str]) -> Iterator[None]:
    """Lines of Python on its arguments are said with the options of the command line."""
    try:
        yield
    except ValueError as error:
        raise ValueError(in_options(str(error), names)) from None


def in_options(line: str, names: Mapping[str, str]) -> str:
    """A line on arguments of Python, said with options.

    Sentences name an argument in one of these ways: `task`, `task=`, `task='x'`, task='x'; the face they are shown on says how
    it is given there. What stands behind it in brackets with an argument of its own is for Python alone.

    >>> names = {"missing": "--missing", "task": "--task", "probe": "--probe", "max_rows": "--max-rows"}
    >>> in_options("pass missing='mean' to fill them; `task` is 'x'", names)
    "pass --missing mean to fill them; --task is 'x'"
    >>> in_options("name it with `task=`; `probe=True` measures it; probe=False; `max_rows=5`, task='a b'", names)
    "name it with --task; --probe measures it; --no-probe; --max-rows 5, --task 'a b'"
    """
    if not names:
        return line
    every = "|".join(sorted(names, key=len, reverse=True))
    value = r"(?:'([^'`]*)'|\"([^\"`]*)\"|([\w.…-]*[\w…]))"

    def option(found: re.Match[str]) -> str:
        name, given = names[found[1]], next((one for one in found.groups()[1:] if one is not None), "")
        if given in ("True", "False"):
            return name if given == "True" else name.replace("--", "--no-", 1)
        return f"{name} {given if re.fullmatch(r'[^ ]+', given) else repr(given)}" if given else name

    line = re.sub(
        r" \(`op\.\w+\([^()]*\)`\)| \(\w+=(?:True|False) [^()]*\)", "", line
    )  # what Python alone can be asked for
    line = re.sub(rf"`({every})(?:={value}?)?`", option, line)
    line = re.sub(rf"\b({every})={value}", option, line)
    return line.replace("a name, a path, a pair (X, y) or a frame", "a name, a file or a folder")


def numbers_in(text: str | None, option: str, expected: str, kind: Callable[[str], Any] = float) -> Any:
    """The numbers of an option such as 0.1,0.2; None where it is not given."""
    return None if text is None else parse_numbers(text, option, expected, kind)


def names_in(text: str | None, option: str, expected: str) -> tuple[str, ...] | None:
    """The names of an option such as a,b; None where it is not given."""
    return None if text is None else parse_names(text, option, expected)


def count_or_share(text: str | None) -> int | float | None:
    """--test as a number of rows or a share of them."""
    if text is None:
        return None
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise ValueError(f"--test is {text!r}; expected a count such as 2000 or a share such as 0.2") from None


def _class_names(text: str | None) -> tuple[int | str, ...] | None:
    """--classes as values."""
    if text is None:
        return None
    names = parse_names(text, "--classes", "at least two, such as 0,1", least=2)
    return tuple(int(name) if name.lstrip("-").isdigit() else name for name in names)


def _folder_name(source: str) -> str:
    """A name of data as part of the name of a folder: the last word of a path, without what files end in.

    >>> _folder_name("../tables/churn.csv.gz"), _folder_name("uci/abalone"), _folder_name("")
    ('churn', 'abalone', 'data')
    """
    last = Path(source).name.split(".")[0] if source else ""
    return re.sub(r"[^\w-]+", "-", last).strip("-")[:60] or "data"
