"""The page of an analysis as plain data: verdict, then what people ask first, then the theory, folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from overparam.analysis.data_answers import Copies, CopyVerdict
from overparam.analysis.data_controls import make_controls
from overparam.analysis.data_growth import growth_blocks
from overparam.analysis.data_kinds import kinds_blocks
from overparam.analysis.data_labels import worst_labels
from overparam.analysis.data_overview import in_percent, overview
from overparam.analysis.data_telling import cut, explained_words, sides
from overparam.analysis.data_theory import error_words, measure_words, theory_sections
from overparam.analysis.data_thumbnails import show
from overparam.analysis.data_verdict import WAYS
from overparam.core.bracketed import Interval
from overparam.core.sections import Block, Figure, Line, Section, Table, Text, series
from overparam.core.words import count_of, listed, measured, number
from overparam.data import ColumnNote

if TYPE_CHECKING:
    from overparam.analysis.data_analysis import Analysis

MANY_CLASSES = 40
"""Classes whose recall the page lists."""
MANY_NOTES = 50
"""Lines on columns that the page has; what is done to most tables gives way to what is found in them."""
ORDINARY = ("category", "boolean", "missing", "converted")
FAR = 3.0
"""Guessing is drawn where it is at most this many times the highest error."""


def make_sections(a: Analysis) -> tuple[Section, ...]:
    """All sections, verdict first."""
    sections = [
        a.verdict.section,
        Section("How well will a model do here?", _expected(a)),
        Section("Is the data right?", _problems(a)),
        Section("Is more data worth it?", _growth(a)),
        Section("What happens when I train?", _training(a)),
        *_kinds(a),
        *theory_sections(a),
        Section("What was done", _done(a), folded=True),
    ]
    return sections[0], overview(a, sections[1:]), *sections[1:]


def _growth(a: Analysis) -> tuple[Block, ...]:
    test = None if a.error.left_out is None else a.error.interval
    return _with_percent(growth_blocks(a.growth, a.task != "regression", test))


def _kinds(a: Analysis) -> tuple[Section, ...]:
    if a.kinds is None:
        return ()
    return (Section("Which kind of model?", _with_percent(kinds_blocks(a.kinds, a.task != "regression"))),)


def _with_percent(blocks: Sequence[Block]) -> tuple[Block, ...]:
    return tuple(in_percent(block) if isinstance(block, Figure) else block for block in blocks)


def _training(a: Analysis) -> tuple[Block, ...]:
    """What the theory of wide two-layer networks says, with dials, and where to ask about a model of one's own."""
    own = Text(
        "This is a two-layer network so wide that it trains like its linearisation, full batch, squared loss. For a model of your "
        "own, `op.foresee(model, data)` or `overparam foresee model.py:make table.csv` tells the rates it bears and its curve."
    )
    dials = () if a.controls is None else (make_controls(a.controls),)
    part = f"The theory's numbers are of {a.rows_of_theory:,} of the {a.n:,} rows, drawn with classes in proportion: they take factors, which cost n³."
    few = () if a.rows_of_theory == a.n else (Text(part),)
    return (*few, *(Text(line) for line in a.theory), *dials, own)


def _expected(a: Analysis) -> tuple[Block, ...]:
    """The error that leads, those beside it, a rival, guessing; then what stands behind it, class by class or target by target."""
    e = a.error
    found: list[tuple[str, Interval]] = []
    if e.test is not None:
        found.append((f"on {count_of(e.test_rows, 'test row')}" if e.test_rows else "on the test set", e.test))
    singly = "rows left out in five folds" if e.folds else "rows left out one at a time"
    told = e.leading not in ("the test set", singly)
    together = e.leading if told else "equal and near rows left out together"
    if e.together is not None:
        found.append((together, e.together))
    found.append((singly, e.alone))
    found += [
        (WAYS[one.kind], one.error)
        for one in e.doubts
        if one.kind in ("in order", "nearest", "folds") and one.error is not None
    ]
    measure = measure_words(a)
    series_ = [
        series(
            "tuned kernel",
            [name for name, _ in found],
            [cut(each).value for _, each in found],
            lower=[cut(each).lower for _, each in found],
            upper=[cut(each).upper for _, each in found],
            mark="points",
            role="true",
        )
    ]
    rows: list[tuple[Any, ...]] = [
        (name, *sides(each), "leads" if each.value == e.value and each.upper == e.upper else "") for name, each in found
    ]
    if e.rival is not None:
        r = e.rival.error
        drawn = cut(r)
        series_.append(
            series(
                "random forest",
                ["random forest"],
                [drawn.value],
                lower=[drawn.lower],
                upper=[drawn.upper],
                mark="points",
                role="random",
            )
        )
        where = count_of(e.rival.folds, "fold") if e.rival.folds else "on the same test rows"
        rows.append(
            (
                f"random forest of {count_of(e.rival.trees, 'tree')}, {where}, grown on {count_of(e.rival.rows, 'row')}",
                *sides(r),
                "",
            )
        )
    guessing = "always naming the commonest class" if a.task != "regression" else "guessing the mean"
    rows.append((guessing, error_words(a, e.guess), None, None, ""))
    highest = max(
        cut(each).upper or each.value for each in (*(each for _, each in found), *([e.rival.error] if e.rival else []))
    )
    near = e.guess <= FAR * highest  # else the line would press all points to the ground; the table has it
    lines = (Line("guessing", y=e.guess),) if near else ()
    figure = Figure(
        "Errors to expect on new rows",
        "Points with 95% intervals. Those of the tuned kernel include the choice of kernel and ridge.",
        "how it was found", measure, tuple(series_), lines=lines,
    )  # fmt: skip
    words = (
        f"The best of {count_of(e.kernels_tried, 'kernel')} and their ridges by the mean square on rows left out: {e.kernel}, ridge "
        f"{number(e.ridge, 2)}."
    )
    words += "".join(f" {note[0].upper()}{note[1:]}." for note in e.notes)
    untold = () if not e.cannot_tell else (Text(f"This cannot be told from these rows: {e.cannot_tell}.", "warning"),)
    blocks: list[Block] = [
        *untold,
        in_percent(figure),
        Table(("The error", measure, "from", "to", ""), tuple(rows), words),
    ]
    kinds = (
        ("balanced error: every class counted alike", "balanced", measured),
        ("AUC: a row of a class put before one of another", "auc", _plainly),
        ("R²: share of the variance explained" + _mean_of(len(e.targets)), "explained", explained_words),
        ("typical error in the target's own units", "residual", _in_digits),
    )
    sources = [e] if e.left_out is None else [e, e.left_out]
    beside = tuple(
        (name, *(None if (each := getattr(one, field)) is None else said(each) for one in sources))
        for name, field, said in kinds
        if any(getattr(one, field) is not None for one in sources) and not (e.cannot_tell and field == "residual")
    )
    heads = ("with its 95% interval",) if e.left_out is None else ("on the test rows", "on training rows left out")
    if beside:
        blocks.append(Table(("Beside it", *heads), beside))
    return (*blocks, *_parts(a))


def _plainly(found: Interval) -> str:
    return measured(found, share=False)


def _in_digits(found: Interval) -> str:
    """In units that may be large: with three digits."""
    return f"{number(found.value, 3)} ({' to '.join(_ends(found))})"


def _mean_of(targets: int) -> str:
    return f", the mean of {count_of(targets, 'target')}" if targets > 1 else ""


def _parts(a: Analysis) -> tuple[Block, ...]:
    """The recall of every class, or of several targets how well each is predicted; on the rows of the leading error."""
    e = a.error
    where = f"Of {'the test rows' if e.left_out is not None else 'rows left out'}, with 95% intervals."
    if e.recalls:
        known = [one for one in e.recalls if one.recall is not None]
        known.sort(key=lambda one: one.recall.value if one.recall is not None else 0.0)
        rows = tuple((one.name, one.rows, measured(one.recall)) for one in known[:MANY_CLASSES])
        more = f" The {MANY_CLASSES} of {len(known):,} that are found least." if len(known) > MANY_CLASSES else ""
        words = f"Recall: how many rows of a class are put into it. {where}{more}"
        return (Table(("Class", "rows", "found"), rows, words, has_samples=True),)
    if len(e.targets) < 2:
        return ()
    rows = tuple(
        (one.name, explained_words(one.explained), number(one.residual.value, 3), *_ends(one.residual))
        for one in e.targets
    )
    heads = ("Target", "R²", "typical error in its own units", "from", "to")
    return (Table(heads, rows, where, has_samples=True),)


def _ends(found: Interval) -> tuple[str, str]:
    return number(found.lower, 3), number(found.upper, 3)


def _problems(a: Analysis) -> tuple[Block, ...]:
    p = a.problems
    c = p.counts
    near = "; ".join(f"{i} & {j} ({rho:.6f})" for i, j, rho in p.near_parallel[:6])
    leaked: tuple[tuple[int | None, str], ...] = ((None, "there is no test set"),) * 2
    if a.new_data.test_rows:
        alike = c.get("test_alike_by_chance", 0)
        chance = f"{alike:,} more that may be alike by chance: counted as new" if alike else ""
        equal, near_ = (
            "; ".join(f"train {i} {sign} test {j}" for i, j in pairs[:6])
            for pairs, sign in ((p.test_in_train, "="), (p.test_near_train, "≈"))
        )
        leaked = (c["test_in_train"], equal or chance), (c.get("test_near_train"), near_)
    checks = [
        ("equal rows with different labels", c["contradictions"], _groups(p.contradictions)),
        ("groups of repeated rows", c["duplicate_groups"], _groups(p.duplicate_rows)),
        ("rows that are copies of others", a.copies, copies_words(a.copy_groups)),
        ("pairs almost parallel (|cos| > 0.9999)", c["near_parallel"], near),
        ("test rows equal to training rows", *leaked[0]),
        ("test rows nearly equal to training rows", *leaked[1]),
        ("constant features", c["constant_features"], ", ".join(p.constant_features[:8])),
    ]
    blocks: list[Block] = [
        Table(
            ("Looked for", "found", "where"),
            tuple((what, count, where or None) for what, count, where in checks),
            "Rows are numbered from 0 as in the source, the first few of each kind shown; result.json has more.",
        )
    ]
    if a.columns:
        heads = ("column", "what", "in words")
        blocks.append(Table(heads, _columns(a.columns), "Done to columns, or found in them.", has_samples=True))
    if p.scale_ratio is not None and p.scale_ratio > 100:
        words = f"The widest feature varies {p.scale_ratio:,.0f} times as much as the narrowest. Standardising is what "
        blocks.append(Text(f"{words}matters most for tables, and is done here unless you asked otherwise."))
    if p.smallest_class is not None:
        blocks.append(Text(f"The smallest class has {count_of(p.smallest_class[1], 'row')}."))
    blocks.append(worst_labels(a.labels, 10))
    if a.thumbnails is not None:
        blocks.append(show(a.thumbnails, a.labels))
    return tuple(blocks)


def _columns(notes: Sequence[ColumnNote]) -> tuple[tuple[str, str, str], ...]:
    """A line a note; what is said of many constant columns, such as the corners of images, is one line.

    >>> notes = [ColumnNote(name, "constant", f"{name} is 0") for name in ("p0", "p8", "p9")]
    >>> _columns([*notes, ColumnNote(None, "scaled", "rows scaled to norm 1")])
    (('p0, p8 and p9', 'constant', '3 constant columns'), ('all', 'scaled', 'rows scaled to norm 1'))
    """
    names = [note.column for note in notes if note.kind == "constant" and note.column is not None]
    if len(names) > 1:
        notes = [note for note in notes if note.kind != "constant" or note.column is None]
    told = [(note.column or "all", note.kind, note.words) for note in notes]
    if len(told) > MANY_NOTES:
        grave = sorted(notes, key=lambda note: note.kind in ORDINARY)[:MANY_NOTES]  # of others the first
        told = [line for note, line in zip(notes, told, strict=True) if note in grave]
        told.append(("…", "", f"and {count_of(len(notes) - len(told), 'more line')} in result.json"))
    if len(names) > 1:
        told.insert(0, (listed(names, MANY_NOTES), "constant", count_of(len(names), "constant column")))
    return tuple(told)


def copies_words(found: Copies) -> str:
    """What was found, where that is more than the rows themselves; those of copies are listed."""
    words: dict[CopyVerdict, str] = {
        "none": "",
        "copies": _groups(found.listed),
        "coincidences": "equal rows are coincidences of a few discrete columns",
        "unclear": "cannot be told apart from chance or clusters",
        "dependent": f"{count_of(found.dependent, 'row')} in groups far from all others: of one person or recording",
        "windows": f"{count_of(found.overlapping, 'row')} overlap others: windows of a series",
    }
    return words[found.verdict]


def _groups(groups: tuple[tuple[int, ...], ...]) -> str:
    return "; ".join(" = ".join(str(i) for i in group) for group in groups[:6])


def _done(a: Analysis) -> tuple[Block, ...]:
    facts = (
        ("data", a.name),
        ("rows used", f"{a.n:,} of {a.total:,}" if a.total > a.n else a.n),
        ("rows of the theory's numbers", None if a.rows_of_theory == a.n else a.rows_of_theory),
        ("features", a.d),
        ("task", a.task),
        ("classes", len(a.classes) or None),
        ("kernel", "two-layer ReLU network, first layer trained, infinite width"),
        ("alignment of kernel and labels", a.learnability.alignment),
        ("effective dimension at the ridged complexity", a.learnability.effective_dimension),
    )
    known = Table(("fact", "here"), tuple(fact for fact in facts if fact[1] is not None))
    told = {note.words for note in a.columns}
    return (known, *data_notes([note for note in a.notes if note not in told], a.classes))


def data_notes(notes: Sequence[str], classes: Sequence[str]) -> tuple[Table, ...]:
    """The notes in order, those that quote the data apart, and the classes in the order of the outputs.

    >>> [table.has_samples for table in data_notes(["rows scaled to norm 1", "column 'age' left out"], [])]
    [False, True]
    """
    tables = []
    plain = tuple((note,) for note in notes if "'" not in note)
    quoting = tuple((note,) for note in notes if "'" in note)  # names a column, a category or a class
    if plain:
        tables.append(Table(("Done to the data, in order",), plain))
    if quoting:
        tables.append(Table(("Done to the columns",), quoting, has_samples=True))
    if classes:
        names = ", ".join(classes[:40]) + (" …" if len(classes) > 40 else "")
        tables.append(Table(("Classes, in the order of the outputs",), ((names,),), has_samples=True))
    return tuple(tables)
