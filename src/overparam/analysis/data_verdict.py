"""The answer in plain words: what a person who reads one paragraph should take away, and what the theory adds."""

from __future__ import annotations

import numpy as np

from overparam.analysis.data_answers import (
    ClassFound,
    Copies,
    ErrorEstimate,
    Problems,
    Rival,
    Scores,
)
from overparam.analysis.data_estimate import TOGETHER
from overparam.analysis.data_growth import Growth, growth_sentence
from overparam.analysis.data_kinds import Kinds, kinds_sentence
from overparam.analysis.data_labels import ScoredLabels, labels_say
from overparam.analysis.data_rows import PreparedRows
from overparam.analysis.data_telling import (
    FAR_BELOW,
    PART,
    RANKED,
    RANKED_WELL,
    WELL,
    WELL_AT_MOST,
    explained_words,
    heavy_tailed,
    is_uneven,
)
from overparam.core.bracketed import Interval
from overparam.core.sections import Tone, Verdict
from overparam.core.words import count_of, listed, measured, number, percent, quoted
from overparam.data.copies import LEAST_DIMENSION

FEW = 30
"""Rows below which the verdict says that it is a rough guess."""
FOUND = 0.5
"""Green needs that of every class at least this share of rows is put into it."""
MANY_TARGETS = 6
"""Targets that the terminal tells of, each for itself."""
FEW_WRONG = 0.15
"""Error above which it is never "can be learned" without more words."""

TONES: tuple[Tone, ...] = ("bad", "warning", "good")
WAYS = {
    "one at a time": "rows left out one at a time",
    "near rows": "all rows near them left out too",
    "in order": "the rows beside each in the file left out too",
    "nearest": "the rows nearest to each left out too",
    "folds": "a fifth of the rows left out at once",
}
"""Other ways of leaving rows out, in words."""
BELONGING = ("in order", "nearest", "windows")
"""Doubts on whether rows are independent."""


def give_verdict(
    s: PreparedRows,
    error: ErrorEstimate,
    copies: Copies,
    problems: Problems,
    labels: ScoredLabels,
    growth: Growth,
    kinds: Kinds | None = None,
) -> Verdict:
    """How well a model will do first, then what stands behind the number, then the data."""
    tone, first = opening(s, error)
    given_away = leaks(s)
    leads = bool(given_away) and not error.cannot_tell and error.value < WELL * error.guess
    if leads:
        tone, first = "warning", _given_away(error, given_away)
    sentences = [
        first,
        *_used(s),
        *_targets(error),
        *(_assumed(s, error, copies) if tone != "bad" and not leads else ()),
        *_beside(s, error),
        *(_rival(s, error) if (kinds is None or error.left_out is not None) and not error.cannot_tell else ()),
        *(() if kinds is None or error.cannot_tell else [kinds_sentence(kinds, s.classes)]),
        *_nor(error, kinds),
        *_uneven(s, error, tone),
        *_copies(s, error, copies),
        *_apart(s, error, copies),
        *(() if leads else _leaks(given_away)),
        *_decided(s),
        *_columns(s),
        *_prepared(s),
    ]
    if s.n < FEW:
        sentences.insert(1, f"With {count_of(s.n, 'row')} all of this is a rough guess.")
    if tone != "bad" and error.value > 0 and not error.cannot_tell and not given_away:
        test = None if error.left_out is None else error.interval
        sentences.append(growth_sentence(growth, s.classes, error.left_out_error, test, s.total))
    sentences += [*(labels_say(labels, bool(_decided(s))) if tone != "bad" or not s.classes else ()), _doubts(problems)]
    counts = problems.counts
    doubtful = counts["contradictions"] or counts["test_in_train"] or counts["test_near_train"] or given_away
    return Verdict("warning" if tone == "good" and doubtful else tone, tuple(sentences))


def opening(s: PreparedRows, error: ErrorEstimate) -> tuple[Tone, str]:
    """The first sentence, and its tone: the verdict as a whole is never better."""
    if error.cannot_tell:
        return "warning", _untold(s, error)
    found: list[Tone] = [_tone(s, error, error.interval, error.rival)]
    if error.left_out is not None and found == ["bad"] and not _unlike(error):
        # few test rows do not prove that nothing carries over where training rows left out say that something does
        found = ["bad" if _tone(s, error.left_out, error.left_out.error) == "bad" else "warning"]
    first, doubted = found[0], []
    for doubt in error.doubts:  # new rows may fare as the error that leads says, and no worse than a doubt that bounds
        judged: Tone = "warning"
        if doubt.bounds and doubt.error is not None:
            judged = _tone(s, error, doubt.error, error.rival)
        found.append("good" if judged == "good" else "warning")
        worse = not doubt.bounds or TONES.index(judged) < TONES.index(first)
        if worse and doubt.kind in WAYS and doubt.error is not None and doubt.error.value > error.value:
            doubted.append((doubt.error, WAYS[doubt.kind]))
    but = ""
    if doubted:
        gravest, way = max(doubted, key=lambda pair: pair[0].value)
        but = f"; with {way} {_of_rows(s, gravest)}"
    belonging = any(doubt.kind in BELONGING for doubt in error.doubts)
    tone = min(found, key=TONES.index)
    what = "labels" if s.classes else "targets"
    said = {
        "good": f"These {what} can be learned",
        "warning": f"These {what} can be learned in part",
        "bad": f"Little of these {what} carries over to new rows",
    }[tone]
    if tone == "warning" and first == "good" and belonging:
        said = f"These {what} can be learned if rows are independent"
    return tone, f"{said}: {_expected(error, ranked=tone == 'warning' and is_uneven(s, error.guess))}{but}."


def _expected(error: ErrorEstimate, ranked: bool = False) -> str:
    """What to expect of new rows, how that was found, and what guessing would give.

    ranked: whether the AUC may say that something is learned where the error does not.
    """
    if error.explained is None:
        chance = ""
        if error.lower < error.guess <= error.upper:
            chance = "; the difference may be chance"
            if ranked and error.auc is not None and error.auc.lower > RANKED:
                chance += f", how rows are ranked is not: AUC {measured(error.auc, share=False)}"
        guess = f"always naming the commonest class is wrong {percent(error.guess)} of the time{chance}"
        return f"expect {measured(error.interval, level=True)} of new rows wrong, {_basis(error)}; {guess}"
    told = explained_words(error.explained, level=True)
    own = (
        ""
        if error.residual is None
        else f" and an error of about {number(error.residual.value, 3)} in the target's own units"
    )
    several = f", the mean of {count_of(len(error.targets), 'target')}," if len(error.targets) > 1 else ""
    return f"expect R² = {told}{several} on new rows{own}, {_basis(error)}; guessing the mean has R² = 0"


def _basis(error: ErrorEstimate) -> str:
    """How the error was found."""
    return {
        "the test set": f"measured on {count_of(error.rows, 'test row')}",
        "your groups left out": "found by leaving out your groups",
        "copies left out together": "found by leaving out rows, copies together",
        "near rows left out together": "found by leaving out rows, near ones together",
        "blocks of overlapping rows left out": "found by leaving out blocks of rows that overlap",
        "rows left out one at a time": "found by leaving out rows",
        "rows left out in five folds": "found by leaving out a fifth of the rows in turn",
    }[error.leading]


def _untold(s: PreparedRows, error: ErrorEstimate) -> str:
    """That these rows do not say how well a model will do, why, and what would."""
    first = f"Whether these {'labels' if s.classes else 'targets'} can be learned cannot be told from these rows: {error.cannot_tell}"
    if s.classes:
        guess = f"always naming the commonest class is wrong {percent(error.guess)} of the time"
        return f"{first}. {measured(error.interval, level=True)} are wrong, {_basis(error)}; {guess}."
    assert error.explained is not None
    if error.explained.lower < FAR_BELOW:
        first += f"; it may be {explained_words(error.explained)}"
    y = s.source.y.reshape(s.source.n, -1)
    if not any(heavy_tailed(column) for column in y.T):
        return f"{first}. Look there: if it is a slip, mend it or leave it out, and ask again."
    other = "its logarithm" if np.all(y > 0) else "a target with a shorter tail, such as its ranks,"
    return f"{first}. The tail of the target is heavy: {other} is what to predict."


def _tone(s: PreparedRows, error: ErrorEstimate | Scores, found: Interval, rival: Rival | None = None) -> Tone:
    if not s.classes:
        if found.value < WELL and found.upper < WELL_AT_MOST:
            return "good"
        return "warning" if found.value < 0.95 and found.upper < 1.0 else "bad"
    if error.guess <= 0:
        return "bad"
    shares = [(found.value / error.guess, found.upper / error.guess)]
    well = found.value < FEW_WRONG and found.upper < error.guess
    uneven = is_uneven(s, error.guess)
    if uneven and error.balanced is not None and error.auc is not None:
        even = 1 - 1 / max(2, sum(one.rows > 0 for one in error.recalls) or len(s.data.classes))
        shares.append((error.balanced.value / even, error.balanced.upper / even))
        well = well and error.auc.lower > RANKED_WELL
    least = _least_found(error)
    well = well and (least is None or least[1].value >= FOUND)
    share, most = shares[-1]
    if well and share < WELL and most < WELL_AT_MOST:
        return "good"
    if any(share < PART and most < 1.0 for share, most in shares):
        return "warning"
    ranked = uneven and error.auc is not None and error.auc.lower > RANKED
    forest = rival is not None and rival.error.upper < PART * error.guess
    return "warning" if ranked or forest else "bad"  # something carries over, though this model names one class


def _least_found(error: ErrorEstimate | Scores) -> tuple[ClassFound, Interval] | None:
    """The class of which the smallest share of rows is put into it."""
    there = [(one, one.recall) for one in error.recalls if one.recall is not None]
    return min(there, key=lambda pair: pair[1].value, default=None)


def _assumed(s: PreparedRows, error: ErrorEstimate, copies: Copies) -> list[str]:
    """What no row can show: that rows are independent, where nothing else says what to do if not, and that columns are none of the labels' making."""
    if error.cannot_tell:
        return []
    told = copies.verdict in ("windows", "dependent") or any(one.kind in BELONGING for one in error.doubts)
    said = []
    if s.data.groups is None and not told:
        said.append(
            "This takes rows to be independent: where several are of one person, machine or place, say which with `group=`."
        )
    if s.source.kind == "table":
        said.append(
            "Columns are taken to be made without these labels: where some were chosen, encoded or computed with their help, new rows fare worse, "
            "and nothing here can show it."
        )
    return said


def _used(s: PreparedRows) -> list[str]:
    """That not all rows were used."""
    if s.n >= s.total:
        return []
    return [f"This is of {s.n:,} of the {count_of(s.total, 'row')}, {s.taken}; `max_rows` takes more."]


def _targets(error: ErrorEstimate) -> list[str]:
    """Of several targets, how well each is predicted, in its own units."""
    if len(error.targets) < 2:
        return []
    told = [
        f"{quoted(one.name)} has R² = {explained_words(one.explained)} and an error of about {number(one.residual.value, 3)}"
        for one in error.targets[:MANY_TARGETS]
    ]
    more = f"; {len(error.targets) - MANY_TARGETS} more are on the page" if len(error.targets) > MANY_TARGETS else ""
    return [f"In their own units: {'; '.join(told)}{more}."]


def _beside(s: PreparedRows, error: ErrorEstimate) -> list[str]:
    """What training rows left out say where a test set leads; why a test set does not lead."""
    if error.left_out is not None:
        return [f"On training rows left out {_of_rows(s, error.left_out.error)}{_unlike(error)}."]
    if not error.test_aside:
        return []
    assert s.data.test is not None
    told = "" if error.test is None else f"; on it {_of_rows(s, error.test)}"
    return [f"The test set of {count_of(s.data.test.n, 'row')} does not lead: {error.test_aside}{told}."]


def _of_rows(s: PreparedRows, error: Interval) -> str:
    if s.classes:
        return f"{measured(error)} are wrong"
    explained = Interval(1 - error.value, 1 - error.upper, 1 - error.lower, error.level)
    return f"R² is {explained_words(explained)}"


def _unlike(error: ErrorEstimate) -> str:
    """Where the two intervals lie apart, that the test rows are of another kind."""
    inside = error.left_out_error
    if inside.upper < error.lower:
        return ": the test rows are clearly harder, and unlike the training rows"
    return ": the test rows are clearly easier, and unlike the training rows" if error.upper < inside.lower else ""


def _rival(s: PreparedRows, error: ErrorEstimate) -> list[str]:
    if error.rival is None:
        return []
    forest, own = error.rival.error, error.interval
    if forest.upper < own.value and forest.value < own.lower:
        how = "clearly less: prefer trees here"
    elif own.upper < forest.value and own.value < forest.lower:
        how = "clearly more"
    else:
        how = "no clear difference"
    where = "in five folds" if error.rival.folds else "on the same test rows"
    if s.classes:
        return [f"A random forest gets {measured(forest)} wrong {where}: {how}."]
    explained = Interval(1 - forest.value, 1 - forest.upper, 1 - forest.lower, forest.level)
    how = how.replace("clearly less", "clearly better").replace("clearly more", "clearly worse")
    return [f"A random forest has R² = {explained_words(explained)} {where}: {how}."]


def _uneven(s: PreparedRows, error: ErrorEstimate, tone: Tone) -> list[str]:
    """Where one class is rare, what the error rate hides; and a class that is seldom found, rare or not."""
    least, told = _least_found(error), []
    uneven = is_uneven(s, error.guess) and error.balanced is not None and error.auc is not None
    if uneven and error.balanced is not None and error.auc is not None:
        counts = np.bincount(s.data.codes, minlength=len(s.data.classes))
        present = np.flatnonzero(counts)
        rarest = int(present[counts[present].argmin()])
        even = sum(one.rows > 0 for one in error.recalls) or len(present)
        told.append(
            f"Classes are uneven ({count_of(int(counts[rarest]), 'row')} of {quoted(s.label(rarest))}): with every class counted "
            f"alike {measured(error.balanced)} are wrong (naming one class: {percent(1 - 1 / even)}), and the AUC is "
            f"{measured(error.auc, share=False)}."
        )
    if least is not None and (uneven or (least[1].value < FOUND and tone != "bad")):
        where = "test row" if error.leading == "the test set" else "row"
        told.append(
            f"Least found is {quoted(least[0].name)}: {measured(least[1])} of its {count_of(least[0].rows, where)}."
        )
    return told


def _copies(s: PreparedRows, error: ErrorEstimate, copies: Copies) -> list[str]:
    both, alike = "", "the labels of a group agree too often"
    if not s.classes:
        alike = "what is left of the targets of a group is too much alike"
    if error.explained is None and error.together is not None and abs(error.together.value - error.alone.value) > 0.005:
        both = f" (one at a time {percent(error.alone.value)}, together {percent(error.together.value)})"
    if copies.verdict == "windows":
        return [
            f"{count_of(copies.overlapping, 'row')} overlap others: they are windows of a series, each mostly moved by {count_of(copies.shift or 0, 'column')}, and answer for each other{both}. Name what was recorded together with `group=`; without that the verdict is not green."
        ]
    if copies.verdict == "copies":
        one = copies.copied == 1
        named = listed([quoted(name) for name in copies.but_for], 4)
        but = f" (some equal but for {named})" if copies.but_for else ""
        return [
            f"{count_of(copies.copied, 'row')} {'is a copy of another' if one else 'are copies of others'}{but} and {'leaves' if one else 'leave'} together with {'it' if one else 'them'}{both}."
        ]
    if copies.verdict == "dependent":
        return [
            f"{count_of(copies.dependent, 'row')} lie in groups that all others are far from, and {alike} for rows of their own{both}: as rows of one person or one recording do. Name what belongs together with `group=`."
        ]
    if copies.verdict == "unclear":
        why = "copies and chance cannot be told apart in so few dimensions"
        if copies.dimension is not None and copies.dimension >= LEAST_DIMENSION:
            why = "copies and clusters cannot be told apart"
        return [f"{count_of(copies.near_rows, 'row')} lie so near others that {why}{both}."]
    if copies.verdict == "coincidences":
        return [
            f"{count_of(copies.equal_rows, 'row')} equal another, as rows of a few discrete columns do: they count as rows of their own{both}."
        ]
    return []


TOLD = ("order", "task", "code", "id", "text dropped", "empty", "date", "missing", "decimal comma", "amount", "ignored")
"""Kinds of notes on columns that the terminal says word by word, the gravest first."""


def leaks(s: PreparedRows) -> tuple[str, ...]:
    """Columns that give the target away."""
    return tuple(note.column for note in s.data.column_notes if note.kind == "leak" and note.column is not None)


def _nor(error: ErrorEstimate, kinds: Kinds | None) -> list[str]:
    """What else cannot be told where the error says nothing."""
    if not error.cannot_tell:
        return []
    which = "" if kinds is None else "which kind of model does best, or "
    return [f"Nor can it be told {which}what more data would bring."]


def _apart(s: PreparedRows, error: ErrorEstimate, copies: Copies) -> list[str]:
    """What to make of an error that grows much where more rows are left out, and of groups in both files."""
    said = []
    made = error.doubt("made up")
    if made is not None:
        without = (
            "" if made.error is None else f"; without them {measured(made.error, level=True)} of the others are wrong"
        )
        said.append(
            f"{count_of(made.rows, 'row')} lie between two others of their class, to the last digits, as oversampling makes them: they answer for "
            f"those, and this error is not of new rows{without}. Oversample the rows that are fitted, never those that are tested."
        )
    order = error.doubt("in order")
    if order is not None and order.error is not None:
        said.append(
            f"Rows beside each other in the file answer for each other: with the {count_of(order.rows, 'row')} beside each left out too "
            f"{_of_rows(s, order.error)}, as for rows of one person, day or recording; as many others of {'its class' if s.classes else 'like targets'} cost less. "
            "Name what belongs together with `group=`."
        )
    near = error.doubt("nearest")
    if near is not None and near.error is not None:
        said.append(
            f"With the {count_of(near.rows, 'row')} nearest to each left out too {_of_rows(s, near.error)}: what is learned of a row is what those beside it "
            "have in common. If rows of one person, machine or place are near each other, so many are wrong for a new one, and no column or order can "
            "show it here: name what belongs together with `group=`."
        )
    if s.data.groups is not None and error.leading in TOGETHER.values():
        said.append(
            "Rows that answer for each other are in different groups of yours, and tie all of these together: no group can be left out "
            "as a whole. Leave out the copies, or name larger groups."
        )
    if error.test_grouped:
        said.append(
            f"{count_of(error.test_grouped, 'test row')} {'is' if error.test_grouped == 1 else 'are'} of groups that the training rows have too: "
            "left out of the test."
        )
    if error.test_looked_at:
        said.append(
            f"Rows nearly equal to training rows were looked for among the first {error.test_looked_at:,} test rows alone; equal ones among all."
        )
    return said


def _decided(s: PreparedRows) -> list[str]:
    """What people decided on labels."""
    return [f"{note.words[0].upper()}{note.words[1:]}." for note in s.data.column_notes if note.kind == "decided"]


def _columns(s: PreparedRows) -> list[str]:
    """What was done to columns, in the words of the notes."""
    notes = [note for kind in TOLD for note in s.data.column_notes if note.kind == kind]
    if not notes:
        return []
    more = f"; and {len(notes) - 6} more on the page" if len(notes) > 6 else ""
    return [f"Columns: {'; '.join(note.words for note in notes[:6])}{more}."]


def _prepared(s: PreparedRows) -> list[str]:
    """How words became numbers, and how these and images were scaled, in one line."""
    notes = s.data.column_notes
    names = dict.fromkeys(note.column for note in notes if note.kind == "category")
    texts = [quoted(name) for name in names]
    done = [f"words of {listed(texts, 4)} as columns of 0 and 1"] if texts else []
    done += [note.words for kind in ("image", "scaled") for note in notes if note.kind == kind]
    return [f"Prepared: {'; '.join(done)}."] if done else []


def _leaks(found: tuple[str, ...]) -> list[str]:
    return [f"{_leaking(found)}. Leave out what is not known when predictions are made."] if found else []


def _leaking(found: tuple[str, ...]) -> str:
    named = listed([quoted(name) for name in found], 4)
    return (
        f"The column {named} gives the target away" if len(found) == 1 else f"The columns {named} give the target away"
    )


def _given_away(error: ErrorEstimate, found: tuple[str, ...]) -> str:
    """The first sentence where a column gives the target away: what is learned is that column."""
    which = "it" if len(found) == 1 else "them"
    return (
        f"{_leaking(found)}: with {which} {_expected(error)}. All that follows rests on {which}: leave out what is not known when predictions "
        "are made, and ask again."
    )


def _doubts(problems: Problems) -> str:
    counts, found = problems.counts, []
    if counts["contradictions"]:
        found.append(f"{count_of(counts['contradictions'], 'group')} of equal rows with different labels")
    for name, pairs, what, sign in (
        ("test_in_train", problems.test_in_train, "equal to training rows", "="),
        ("test_near_train", problems.test_near_train, "nearly equal to training rows", "≈"),
    ):
        if counts[name]:
            which = ", ".join(f"train {i} {sign} test {j}" for i, j in pairs[:3]) + ", …" * (counts[name] > 3)
            found.append(f"{count_of(counts[name], 'test row')} {what}, left out of the test error ({which})")
    if counts["constant_features"]:
        found.append(count_of(counts["constant_features"], "constant feature"))
    if problems.smallest_class is not None and problems.smallest_class[1] < 5:
        found.append(f"a class of only {count_of(problems.smallest_class[1], 'row')}")
    if not found:
        return "The checks of the data found nothing else."
    return "Look at the data: " + "; ".join(found) + "."
