"""Two records lined up by what they hold: numbers by path, arrays by name, tables by cell, figures by point.

A value that is no longer where it was is looked for elsewhere in the same case: a number with all its digits, an
array with the same bytes, a sentence with the same words has moved and is no difference. What is only in the second
record is counted, not complained about; what is only in the first is missing.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from . import explained

NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Difference:
    """One difference: where, of which sort (number, words, missing), both sides, and how large it is if of numbers."""

    case: str
    place: str
    sort: str
    before: Any
    after: Any
    relative: float | None = None


@dataclass
class Comparison:
    """All differences of two records, how much was compared, and what is new."""

    differences: list[Difference] = field(default_factory=list)
    equal: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)
    added: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    reasons: dict[Difference, str] = field(default_factory=dict)
    seconds: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Case → seconds of the processor in both, or of the clock where one of them has no others."""

    @property
    def unexplained(self) -> list[Difference]:
        """Those without a reason in `explained.py`."""
        return [d for d in self.differences if d not in self.reasons]


def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> Comparison:
    """All cases of two records; a case that only one of them has run for lack of data is left out of the comparison."""
    found = Comparison()
    for name, before in first["cases"].items():
        after = second["cases"].get(name)
        if after is None:
            found.differences.append(Difference(name, "case", "missing", before["line"], None))
        elif any("left out" in side.get("failed", "") for side in (before, after)):
            found.ignored["cases left out for lack of data"] += 1
        elif "failed" in after or "failed" in before:
            if after.get("failed") != before.get("failed"):
                said = [side.get("failed", "ran") for side in (before, after)]
                found.differences.append(Difference(name, "case", "missing", *said))
        else:
            _Case(name, before, after, found).all()
            clock = "cpu" if before.get("cpu") and after.get("cpu") else "seconds"
            found.seconds[name] = (before[clock], after[clock])
    found.added["cases"] += len(set(second["cases"]) - set(first["cases"]))
    for difference in found.differences:
        reason = reason_of(difference)
        if reason:
            found.reasons[difference] = reason
    return found


def reason_of(difference: Difference) -> str | None:
    """The reason that `explained.py` gives for a difference, if it does."""
    for entry in explained.EXPLAINED:
        if fnmatchcase(difference.case, entry.case) and fnmatchcase(difference.place, entry.place):
            small = difference.relative is not None and entry.within is not None and difference.relative <= entry.within
            if entry.within is None or small:
                return entry.reason
    return None


class _Case:
    """One case of both records, compared part by part."""

    def __init__(self, name: str, before: Mapping[str, Any], after: Mapping[str, Any], found: Comparison):
        self.name, self.found = name, found
        self.before, self.after = before, after
        self.values = tuple(_renamed(side.get("values", {})) for side in (before, after))
        self.arrays = tuple(_renamed(side.get("arrays", {})) for side in (before, after))

    def all(self) -> None:
        """Values, arrays, sections, printed lines."""
        self.compare_values()
        self.compare_arrays()
        self.compare_sections()
        self.compare_printed()

    def same(self, place: str, before: Any, after: Any, sort: str) -> None:
        """Note two leaves that belong together as equal, ignored or different."""
        if self.is_ignored(place):
            return
        if _equal(before, after):
            self.found.equal[sort] += 1
            return
        relative = None
        if _is_number(before) and _is_number(after):
            relative = _relative(before, after)
        elif isinstance(before, str) and isinstance(after, str):
            relative = _relative_of_words(before, after)
        sort = "number" if relative is not None else "words"
        self.found.differences.append(Difference(self.name, place, sort, before, after, relative))

    def is_ignored(self, place: str) -> bool:
        """Whether the list of ignored places has this one; it is counted."""
        for pattern, why in explained.IGNORED:
            if fnmatchcase(place, pattern):
                self.found.ignored[why] += 1
                return True
        return False

    def missing(self, place: str, before: Any) -> None:
        """Note what only the first record has."""
        if not self.is_ignored(place):
            self.found.differences.append(Difference(self.name, place, "missing", before, None))

    def compare_values(self) -> None:
        """Numbers and words by path, then by content."""
        before, after = self.values
        free = {path: value for path, value in after.items() if path not in before}
        elsewhere = _Everything(self.after, self.arrays[1])
        used: set[str] = set()
        for path, value in before.items():
            place = f"value {path}"
            if path in after:
                self.same(place, value, after[path], "values")
            elif value is None or elsewhere.has(path, value):
                self.found.moved["values"] += 1
            elif near := _nearest(path, free.keys() - used):
                used.add(near)
                self.same(place, value, free[near], "values")
            else:
                self.missing(place, value)
        self.found.added["values"] += len(free)

    def compare_arrays(self) -> None:
        """Arrays by name, then by digest."""
        before, after = self.arrays
        digests = {(tuple(a["shape"]), a["sha256"]) for a in after.values()}
        digests |= {(tuple(a["shape"]), a["sha256"]) for a in _arrays_of(self.after.get("sections", []))}
        free = set(after) - set(before)
        for name, array in before.items():
            place = f"array {name}"
            if name in after:
                self.compare_array(place, array, after[name])
            elif (tuple(array["shape"]), array["sha256"]) in digests:
                self.found.moved["arrays"] += 1
            elif near := _nearest(name, free):
                free.discard(near)
                self.compare_array(place, array, after[near])
            else:
                self.missing(place, f"shape {array['shape']}")
        self.found.added["arrays"] += len(set(after) - set(before))

    def compare_array(self, place: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Two arrays: equal bytes, or the largest difference among the values that are kept."""
        if self.is_ignored(place):
            return
        if before["sha256"] == after["sha256"] and before["shape"] == after["shape"]:
            self.found.equal["arrays"] += 1
            return
        if math.prod(before["shape"]) != math.prod(after["shape"]):
            self.found.differences.append(
                Difference(self.name, place, "words", f"shape {before['shape']}", f"shape {after['shape']}")
            )
            return
        pairs = list(zip(*(side.get("values", side.get("sample")) for side in (before, after)), strict=True))
        pairs += [(before[key], after[key]) for key in ("sum", "least", "largest") if key in before and key in after]
        worst = [(_relative(a, b), a, b) for a, b in pairs if not _equal(a, b)]
        if not worst and before["dtype"] == after["dtype"]:  # a sample is equal, the whole is not
            self.found.differences.append(Difference(self.name, place, "number", "bytes", "other bytes", 0.0))
        elif not worst:
            self.found.equal["arrays"] += 1
        else:
            relative, a, b = max(worst, key=lambda item: item[0])
            self.found.differences.append(Difference(self.name, place, "number", a, b, relative))

    def compare_sections(self) -> None:
        """Blocks of the page: texts, tables cell by cell, figures and surfaces point by point."""
        before, after = (_blocks(side.get("sections", [])) for side in (self.before, self.after))
        bodies = {block.get("body") for _, _, block in after}
        for kind in ("text", "table", "figure", "surface"):
            ours, theirs = ([b for b in side if b[2]["kind"] == kind] for side in (before, after))
            pairs, left = _pair([key for _, key, _ in ours], [key for _, key, _ in theirs])
            for i, j in pairs:
                place = f"section {ours[i][0]} / {kind} {ours[i][1][:60]}"
                if kind == "text":
                    self.same(place, ours[i][2]["body"], theirs[j][2]["body"], "texts")
                elif kind == "table":
                    self.compare_table(place, ours[i][2], theirs[j][2])
                else:
                    self.compare_figure(place, ours[i][2], theirs[j][2])
            for i in left:
                if kind == "text" and ours[i][2]["body"] in bodies:
                    self.found.moved["texts"] += 1
                else:
                    self.missing(f"section {ours[i][0]} / {kind} {ours[i][1][:60]}", ours[i][2].get("body", kind))
            self.found.added[f"{kind}s of the page"] += max(0, len(theirs) - len(pairs))

    def compare_table(self, place: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Rows by their first cell where those are unlike, else by position; columns by head."""
        self.same(f"{place} caption", before.get("caption", ""), after.get("caption", ""), "texts")
        heads, new_heads = ([str(c) for c in side["columns"]] for side in (before, after))
        columns, lost = _pair(heads, new_heads)
        for i in lost:
            self.missing(f"{place} column {heads[i]}", heads[i])
        names = [_head(row) for row in before["rows"]]
        rows, gone = _pair(names, [_head(row) for row in after["rows"]])
        for i in gone:
            self.missing(f"{place} row {i + 1}", before["rows"][i])
        for i, j in rows:
            for p, q in columns:
                self.same(
                    f"{place} row {i + 1} {names[i][:40]} column {heads[p]}",
                    before["rows"][i][p],
                    after["rows"][j][q],
                    "cells",
                )

    def compare_figure(self, place: str, before: Any, after: Any) -> None:
        """A figure or surface, leaf by leaf; series and lines are lined up by their names."""
        if isinstance(before, Mapping) and "sha256" in before and isinstance(after, Mapping) and "sha256" in after:
            self.compare_array(place, before, after)
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            for key, value in before.items():
                if key in after:
                    self.compare_figure(f"{place} {key}", value, after[key])
                elif value not in (None, False, [], ""):
                    self.missing(f"{place} {key}", value)
        elif isinstance(before, list) and isinstance(after, list):
            names = [
                [
                    str(item.get("name", item.get("label", "")) if isinstance(item, Mapping) else k)
                    for k, item in enumerate(side)
                ]
                for side in (before, after)
            ]
            pairs, left = _pair(*names)
            for i, j in pairs:
                self.compare_figure(f"{place} {names[0][i]}", before[i], after[j])
            for i in left:
                self.missing(f"{place} {names[0][i]}", before[i])
        else:
            self.same(place, before, after, "points and labels")

    def compare_printed(self) -> None:
        """Lines that a script or a plan printed."""
        before, after = self.before.get("printed", []), self.after.get("printed", [])
        pairs, left = _pair(before, after)
        for i, j in pairs:
            self.same(f"printed {before[i][:70]}", before[i], after[j], "lines")
        for i in left:
            if before[i].strip():
                self.missing(f"printed {before[i][:70]}", before[i])


class _Everything:
    """All numbers and words of one case, to look things up by content."""

    def __init__(self, case: Mapping[str, Any], arrays: Mapping[str, Any]):
        values = case.get("values", {})
        self.numbers = {v for v in values.values() if _is_number(v)}
        self.words = {v for v in values.values() if isinstance(v, str)}
        self.named = {(path.rsplit(".", 1)[-1], v) for path, v in values.items() if not isinstance(v, float) or v == v}
        for array in [*arrays.values(), *_arrays_of(case.get("sections", []))]:
            self.numbers.update(v for v in array.get("values", ()) if _is_number(v))
            self.words.update(v for v in array.get("values", ()) if isinstance(v, str))
        for _, _, block in _blocks(case.get("sections", [])):
            self.words.add(block.get("body"))

    def has(self, path: str, value: Any) -> bool:
        """Whether the value is here under another path: by its last name, or by content where that is telling."""
        if (path.rsplit(".", 1)[-1], value) in self.named:
            return True
        if isinstance(value, str):
            return value in self.words and len(value) > 3
        telling = (
            isinstance(value, float)
            and math.isfinite(value)
            and len(repr(value).replace("-", "").replace(".", "").lstrip("0")) >= 6
        )
        return telling and value in self.numbers


def _renamed(given: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for path, value in given.items():
        for pattern, new in explained.RENAMED:
            path = re.sub(pattern, new, path)
        found[path] = value
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _equal(a: Any, b: Any) -> bool:
    if _is_number(a) and _is_number(b):
        return a == b or (a != a and b != b)
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _relative(a: Any, b: Any) -> float:
    if not (_is_number(a) and _is_number(b)) or not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b))


def _relative_of_words(a: str, b: str) -> float | None:
    """The largest difference of numbers between two sentences that are otherwise the same; None where words differ."""
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return None
    numbers = [[float(x.replace(",", "").rstrip(".")) for x in NUMBER.findall(side)] for side in (a, b)]
    return max((_relative(x, y) for x, y in zip(*numbers, strict=True) if x != y), default=0.0)


def _nearest(path: str, others: Iterable[str]) -> str | None:
    """Of the paths with the same last two names, or the same last one, that with the most names in common."""
    names = path.split(".")
    ranked = [(len(set(names) & set(other.split("."))), other) for other in others if other.split(".")[-1] == names[-1]]
    best = max(ranked, default=None)
    return best[1] if best and (best[0] >= 2 or len(names) == 1) else None


def _head(row: Sequence[Any]) -> str:
    return " | ".join(str(cell) for cell in row[:2] if isinstance(cell, str))


def _blocks(sections: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """(title of the section, name of the block, block); a text is named by its words without numbers."""
    found = []
    for section in sections:
        for block in section["blocks"]:
            if block["kind"] == "text":
                name = NUMBER.sub("#", block["body"])
            else:
                name = str(block.get("title") or " | ".join(str(c) for c in block.get("columns", ())))
            found.append((section["title"], name, block))
    return found


def _arrays_of(value: Any) -> list[Mapping[str, Any]]:
    """Every condensed array inside nested lists and dicts."""
    if isinstance(value, Mapping):
        if "sha256" in value:
            return [value]
        return [array for item in value.values() for array in _arrays_of(item)]
    return [array for item in value for array in _arrays_of(item)] if isinstance(value, list) else []


def _pair(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[tuple[int, int]], list[int]]:
    """Positions that belong together: equal names in order, then the k-th left of ours with the k-th of theirs between them."""
    pairs: list[tuple[int, int]] = []
    left: list[int] = []
    free: dict[str, list[int]] = defaultdict(list)
    for tag, a, b, c, d in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += zip(range(a, b), range(c, d), strict=True)
            continue
        for j in range(c, d):
            free[theirs[j]].append(j)
        left += range(a, b)
    rest = []
    for i in left:
        if free[ours[i]]:
            pairs.append((i, free[ours[i]].pop(0)))
        else:
            rest.append(i)
    unused = sorted(j for places in free.values() for j in places)
    lost = []
    for i in rest:
        near = difflib.get_close_matches(ours[i], [theirs[j] for j in unused], n=1, cutoff=0.6)
        if near:
            j = next(j for j in unused if theirs[j] == near[0])
            unused.remove(j)
            pairs.append((i, j))
        else:
            lost.append(i)
    return sorted(pairs), lost


def report(found: Comparison, *, longest: int = 40) -> str:
    """The comparison in lines: what was equal, then differences in groups, the largest of each first."""
    lines = ["equal: " + ", ".join(f"{n:,} {what}" for what, n in found.equal.items())]
    for what, counted in (("moved", found.moved), ("only in the second", found.added), ("not compared", found.ignored)):
        lines.append(f"{what}: " + (", ".join(f"{n:,} {kind}" for kind, n in counted.items() if n) or "nothing"))
    totals = [sum(pair[side] for pair in found.seconds.values()) for side in (0, 1)]
    lines.append(f"seconds: {totals[0]:,.0f} before, {totals[1]:,.0f} after")
    for name, (before, after) in sorted(found.seconds.items(), key=lambda item: item[1][0] - item[1][1])[:3]:
        if after > 1.5 * before:
            lines.append(f"  slower: {name}, {before:g} → {after:g}")
    groups: dict[tuple[str, str, str], list[Difference]] = defaultdict(list)
    for difference in found.differences:
        reason = found.reasons.get(difference, "")
        groups[reason, difference.case, re.sub(r"\d+", "#", difference.place) + f" ({difference.sort})"].append(
            difference
        )
    for reason in sorted({key[0] for key in groups}):
        mine = {key: group for key, group in groups.items() if key[0] == reason}
        count = sum(len(group) for group in mine.values())
        lines.append(f"\n{f'explained, {reason}' if reason else 'UNEXPLAINED'}: {count:,} differences")
        for k, ((_, case, place), group) in enumerate(sorted(mine.items())):
            if k == longest:
                lines.append(f"  … and {len(mine) - longest} groups more")
                break
            worst = max(group, key=lambda d: -1.0 if d.relative is None else d.relative)
            size = "" if worst.relative is None else f", largest {worst.relative:.2g}"
            lines.append(f"  {case}: {place}: {len(group)}{size}: {_short(worst.before)} → {_short(worst.after)}")
    total, open_ = len(found.differences), len(found.unexplained)
    lines.append(f"\n{total:,} differences, {total - open_:,} explained, {open_:,} unexplained")
    return "\n".join(lines)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "…"
