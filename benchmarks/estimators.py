"""NTKClassifier and NTKRegressor beside forests, boosting, support vectors, linear models and neighbours, tuned in its time.

    python benchmarks/estimators.py PLACE [--tables uci|regression|packaged|packaged-regression] [--rows 10000] [--until SECONDS] [--only MODEL,…] [--missing]
    python benchmarks/estimators.py PLACE --times | --copies | --restore | --gather

Each part (a table, a split, a model) is a line of a file in PLACE, written when it is done: the run goes on where it
stopped, and several may run side by side. Three folds a table; numbers are seconds of the processor of one thread. Our fit is
made first, and every rival tries its settings, the usual one first, by three folds or rows out of the bag until as much time is
gone, a second at least. CatBoost, LightGBM and xRFM take part where they can be imported, WideNet where it is named.

`uci` are the tables of $OVERPARAM_DATA, on half of which the default was decided; `packaged` those that benchmarks/packaged_tables.py
names, whose list was committed before any model was fitted to one of them, run and told in the same way.

--restore makes the files of an empty PLACE from the committed results, and --gather writes those again; of a part that is there twice the first counts.
--missing runs rivals where the committed results have none, on another machine too, in the time that our fit takes there; their
errors are gathered, but not their seconds.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import importlib.util
import itertools
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from packaged_tables import CLASSES, TARGETS, rows
from record import RESULTS, processor

SPLITS, TREES, LEAST = 3, 500, 1.0
COPIED = ("wine-quality-red", "wine-quality-white")
"""Tables with many equal rows of one label, on which trees are ahead."""
COLUMNS = ("error", "ece", "log_loss", "seconds", "settings")
"""Of a model on a split, as they are committed."""
KINDS = {"uci": True, "regression": False, "packaged": True, "packaged-regression": False}
"""Sets of tables, and whether they have classes."""


def tables(rows: int) -> list[str]:
    """Names of classification tables with at most so many rows, few rows first."""
    place = Path(os.environ["OVERPARAM_DATA"]) / "uci" / "index.csv"
    found = [row for row in csv.DictReader(place.open()) if int(row["n"]) <= rows]
    return [row["name"] for row in sorted(found, key=lambda row: int(row["n"]))]


def regressions() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Tables that come inside scikit-learn and plotly, and statsmodels and vega_datasets where they are installed, with a measured
    column as the target, of thirty rows at least."""
    import pandas as pd
    import plotly.data
    from sklearn import datasets

    diabetes: Any = datasets.load_diabetes(return_X_y=True)
    found = {"diabetes": diabetes}
    linnerud: Any = datasets.load_linnerud(return_X_y=True)
    for j, name in enumerate(("weight", "waist", "pulse")):
        found[f"linnerud: {name}"] = (linnerud[0], linnerud[1][:, j])
    for load, column, name in (
        (datasets.load_iris, 3, "iris: petal width"),
        (datasets.load_wine, 0, "wine: alcohol"),
        (datasets.load_breast_cancer, 9, "breast-cancer: fractal dimension"),
    ):
        rows: Any = load(return_X_y=True)
        found[name] = (np.delete(rows[0], column, axis=1), rows[0][:, column])
    for frame, target, gone in (
        (plotly.data.tips(), "tip", []),
        (plotly.data.gapminder(), "lifeExp", ["country", "iso_alpha", "iso_num"]),
        (plotly.data.carshare(), "car_hours", []),
    ):
        found[target] = _numbers(frame, target, gone)
    for package, path, target, gone in PACKAGED:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            continue
        file = Path(spec.submodule_search_locations[0]) / path
        frame = (
            pd.read_json(file) if file.suffix == ".json" else pd.read_csv(file, sep=None, engine="python", comment="=")
        )
        if "date" in frame:
            frame["date"] = pd.to_datetime(frame["date"]).dt.dayofyear
        found[f"{file.stem}: {target}"] = _numbers(frame, target, gone)
    return found


def _numbers(frame: Any, target: str, gone: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Rows without a gap as numbers, text one column a value."""
    import pandas as pd

    frame = frame.drop(columns=gone).dropna()
    table = pd.get_dummies(frame.drop(columns=target)).astype(float)
    return table.to_numpy(), frame[target].to_numpy(dtype=float)


PACKAGED: list[tuple[str, str, str, list[str]]] = [
    ("statsmodels", "datasets/cancer/cancer.csv", "cancer", []),
    ("statsmodels", "datasets/ccard/ccard.csv", "AVGEXP", []),
    ("statsmodels", "datasets/engel/engel.csv", "foodexp", []),
    ("statsmodels", "datasets/fair/fair.csv", "affairs", []),
    ("statsmodels", "datasets/grunfeld/grunfeld.csv", "invest", []),
    ("statsmodels", "datasets/heart/heart.csv", "survival", []),
    ("statsmodels", "datasets/modechoice/modechoice.csv", "ttme", ["individual"]),
    ("statsmodels", "datasets/scotland/scotvote.csv", "YES", ["COUNCILDIST"]),
    ("statsmodels", "datasets/statecrime/statecrime.csv", "murder", ["state"]),
    ("statsmodels", "datasets/strikes/strikes.csv", "duration", []),
    ("vega_datasets", "_data/cars.json", "Miles_per_Gallon", ["Name"]),
    ("vega_datasets", "_data/seattle-weather.csv", "temp_max", []),
    ("vega_datasets", "_data/barley.json", "yield", []),
    ("vega_datasets", "_data/driving.json", "gas", ["side"]),
]
"""Package, file, target, columns left out: names of rows."""


def models(classes: bool, key: int) -> dict[str, tuple[Callable[..., Any], dict[str, list[Any]]]]:
    """Every rival as a function of settings, and the settings, the usual one first."""
    from sklearn import ensemble, linear_model, neighbors, pipeline, preprocessing, svm

    def scaled(model: Any) -> Any:
        return pipeline.make_pipeline(preprocessing.StandardScaler(), model)

    kind = "Classifier" if classes else "Regressor"
    grown = {"n_jobs": 1, "random_state": key}
    features = ["sqrt", 0.33, 1.0] if classes else [1.0, 0.33, "sqrt"]
    found: dict[str, tuple[Callable[..., Any], dict[str, list[Any]]]] = {
        "random forest": (
            lambda **s: getattr(ensemble, f"RandomForest{kind}")(TREES, **grown, **s),
            {"max_features": features, "min_samples_leaf": [1, 3]},
        ),
        "extra trees": (
            lambda **s: getattr(ensemble, f"ExtraTrees{kind}")(TREES, **grown, **s),
            {"max_features": features, "min_samples_leaf": [1, 3]},
        ),
        "histogram boosting": (
            lambda **s: getattr(ensemble, f"HistGradientBoosting{kind}")(random_state=key, **s),
            {"learning_rate": [0.1, 0.03], "max_leaf_nodes": [31, 8], "l2_regularization": [0.0, 1.0]},
        ),
        "k nearest neighbours": (
            lambda **s: scaled(getattr(neighbors, f"KNeighbors{kind}")(**s)),
            {"n_neighbors": [5, 1, 3, 9, 15, 25], "weights": ["uniform", "distance"]},
        ),
    }
    C, gamma = [1.0, 10.0, 0.1, 100.0, 1000.0], ["scale", 0.01, 0.1, 0.001, 1.0]
    if classes:
        found["support vectors"] = (lambda **s: scaled(svm.SVC(**s)), {"C": C, "gamma": gamma})
        found["linear"] = (
            lambda **s: scaled(linear_model.LogisticRegression(max_iter=500, **s)),
            {"C": [1.0, 0.1, 10.0, 0.01, 100.0]},
        )
    else:
        found["support vectors"] = (lambda **s: scaled(svm.SVR(**s)), {"C": C, "gamma": gamma, "epsilon": [0.1]})
        found["linear"] = (lambda **s: scaled(linear_model.Ridge(**s)), {"alpha": [1.0, 0.1, 10.0, 100.0, 1000.0]})
    if importlib.util.find_spec("lightgbm"):
        import lightgbm

        found["LightGBM"] = (
            lambda **s: getattr(lightgbm, f"LGBM{kind}")(n_jobs=1, random_state=key, verbose=-1, **s),
            {"learning_rate": [0.1, 0.03], "num_leaves": [31, 8], "min_child_samples": [20, 5]},
        )
    if importlib.util.find_spec("catboost"):
        import catboost

        found["CatBoost"] = (
            lambda **s: getattr(catboost, f"CatBoost{kind}")(
                iterations=300, thread_count=1, random_seed=key, verbose=0, allow_writing_files=False, **s
            ),
            {"depth": [6, 4], "learning_rate": [None, 0.1]},
        )
    if importlib.util.find_spec("xrfm") and importlib.util.find_spec("tqdm"):
        found["xRFM"] = (
            lambda **s: XRFM(classes, key, **s),
            {"kernel": ["l2", "l1"], "reg": [1e-3, 1e-1, 1e-5], "bandwidth": [10.0, 2.0]},
        )
    return found


class XRFM:
    """xRFM on standardised columns, as its page has it: a fifth of the rows decides after which of its iterations to stop."""

    def __init__(self, classes: bool, key: int, kernel: str, reg: float, bandwidth: float) -> None:
        self.is_class, self.key = classes, key
        model = {
            "kernel": kernel,
            "bandwidth": bandwidth,
            "exponent": 1.0,
            "diag": kernel == "l1",
            "bandwidth_mode": "constant",
        }
        self.parameters = {"model": model, "fit": {"reg": reg, "iters": 5, "verbose": False, "early_stop_rfm": True}}

    def fit(self, X: np.ndarray, y: np.ndarray) -> XRFM:
        import torch
        from sklearn.model_selection import train_test_split
        from sklearn.preprocessing import StandardScaler
        from xrfm import xRFM

        torch.set_num_threads(1)
        self.scale = StandardScaler().fit(X)
        self.classes_, told = np.unique(y, return_inverse=True) if self.is_class else (None, y.astype(np.float32))
        rows = self.scale.transform(X).astype(np.float32)
        few = self.is_class and np.bincount(told).min() < 2
        parts = train_test_split(
            rows, told, test_size=0.2, random_state=self.key, stratify=told if self.is_class and not few else None
        )
        metric = "brier" if self.is_class else "mse"
        self.model = xRFM(
            rfm_params=self.parameters,
            device="cpu",
            tuning_metric=metric,
            n_threads=1,
            random_state=self.key,
            verbose=False,
        )
        self.model.fit(parts[0], parts[2], parts[1], parts[3])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        found = np.ravel(self.model.predict(self.scale.transform(X).astype(np.float32)))
        return found if self.classes_ is None else self.classes_[found.astype(int)]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        assert self.is_class
        return np.asarray(self.model.predict_proba(self.scale.transform(X).astype(np.float32)))


class Target:
    """Support vectors are fitted to targets of variance 1: their ε and C are in those units."""

    def __init__(self, model: Any, y: np.ndarray, scale: bool) -> None:
        self.model, self.shift, self.size = model, (y.mean() if scale else 0.0), (y.std() if scale else 1.0)

    def fit(self, X: np.ndarray, y: np.ndarray) -> Target:
        self.model.fit(X, (y - self.shift) / self.size if self.size != 1.0 or self.shift != 0.0 else y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.ravel(self.model.predict(X)) * self.size + self.shift


def tuned(
    name: str,
    make: Callable[..., Any],
    grid: dict[str, list[Any]],
    X: np.ndarray,
    y: np.ndarray,
    classes: bool,
    budget: float,
    key: int,
) -> tuple[Any, int]:
    """The model with the best of the settings that there was time for, fitted to all rows, and how many those were."""
    from sklearn.model_selection import KFold, StratifiedKFold

    start, best, count = time.process_time(), None, 0
    settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    folds = list((StratifiedKFold if classes else KFold)(3, shuffle=True, random_state=key).split(X, y))
    for setting in settings:
        if setting.get("n_neighbors", 0) > min(len(fitted) for fitted, _ in folds):
            continue  # fewer rows than neighbours
        if count and time.process_time() - start > budget * 0.75:
            break
        right = []
        for fitted, held in folds:
            model = make(**setting)
            if "trees" in name or "forest" in name:
                model.set_params(n_estimators=100)
            if not classes:
                model = Target(model, y[fitted], True)
            try:
                told = np.ravel(model.fit(X[fitted], y[fitted]).predict(X[held]))
            except Exception:  # CatBoost, where a fold has one class
                told = np.full(len(held), y[fitted][0])
            right.append(np.mean(told == y[held]) if classes else -np.mean((told - y[held]) ** 2))
        count += 1
        score = float(np.mean(right))
        if best is None or score > best[0]:
            best = score, setting
    assert best is not None
    model = make(**best[1])
    return (model if classes else Target(model, y, True)).fit(X, y), count


def calibration(chances: np.ndarray, codes: np.ndarray) -> tuple[float, float]:
    """ECE of fifteen equal bins of the largest probability, and the log loss, clipped at 1e-3."""
    top, right = chances.max(axis=1), chances.argmax(axis=1) == codes
    bins = np.minimum((top * 15).astype(int), 14)
    away = np.abs(np.bincount(bins, top - right, minlength=15)).sum() / len(codes)
    safe = np.clip(chances, 1e-3, None)
    safe /= safe.sum(axis=1, keepdims=True)
    return float(away), float(-np.mean(np.log(safe[np.arange(len(codes)), codes])))


@cache
def read(kind: str, table: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and their classes as whole numbers or their targets."""
    import overparam as op

    if kind == "uci":
        data = op.load(f"uci/{table}", key=0)
        return np.asarray(data.X, dtype=np.float64), data.codes
    return regressions()[table] if kind == "regression" else rows(table, KINDS[kind])


def part(kind: str, table: str, split: int, name: str, budget: float) -> dict[str, Any]:
    """One model on one split of one table."""
    from sklearn.model_selection import KFold, StratifiedKFold

    import overparam as op

    classes, (X, y) = KINDS[kind], read(kind, table)
    cut = (StratifiedKFold if classes else KFold)(SPLITS, shuffle=True, random_state=0)
    fitted, held = list(cut.split(X, y))[split]
    found: dict[str, Any] = {
        "table": table,
        "split": split,
        "model": name,
        "n": len(fitted),
        "d": X.shape[1],
        "classes": len(np.unique(y)) if classes else 0,
        "machine": processor(),
    }
    start = time.process_time()
    if name in ("NTK", "WideNet"):
        made = f"{name}{'Classifier' if classes else 'Regressor'}"
        model: Any = getattr(op, made)().fit(X[fitted], y[fitted])
        found["seconds"] = time.process_time() - start
        loo = model.loo_error_
        found |= {"loo": loo.value, "loo_lower": loo.lower, "loo_upper": loo.upper}
        if name == "NTK":
            away = model.loo_predictions_
            found["loo_raw"] = float(np.mean(away != y[fitted]) if classes else np.mean((away - y[fitted]) ** 2))
            found["chosen"] = model.chosen_["kernel"]
        settings = 1
    else:
        make, grid = models(classes, split)[name]
        model, settings = tuned(name, make, grid, X[fitted], y[fitted], classes, budget, split)
        found["seconds"] = time.process_time() - start
    told = np.ravel(model.predict(X[held]))
    found["settings"] = settings
    found["error"] = (
        float(np.mean(told != y[held])) if classes else float(np.mean((told - y[held]) ** 2) / np.var(y[held]))
    )
    if not classes:
        found["variance"] = float(np.var(y[held]))
    if classes and hasattr(model, "predict_proba"):
        chances = np.zeros((len(held), int(y.max()) + 1))
        chances[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(X[held])
        found["ece"], found["log_loss"] = calibration(chances, y[held])
    return found


def lines(place: Path) -> Iterator[dict[str, Any]]:
    """The parts that are done."""
    if place.exists():
        yield from map(json.loads, place.read_text().splitlines())


def committed() -> dict[str, Any]:
    """What benchmarks/results/estimators.json holds."""
    return json.loads((RESULTS / "estimators.json").read_text(encoding="utf-8"))


def run(place: Path, which: str, most: int, until: float, only: list[str] | None, missing: bool) -> None:
    """All parts that are not there yet, small tables first."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    warnings.filterwarnings("ignore")
    end, file = time.monotonic() + until, place / f"{which}.jsonl"
    names = {"uci": lambda: tables(most), "regression": regressions, "packaged": lambda: CLASSES}.get(
        which, lambda: TARGETS
    )()
    names = list(names)
    place.mkdir(parents=True, exist_ok=True)
    have = {
        (row["table"], row["split"]): row["models"] for row in committed()["rows"] if row["kind"] == which and missing
    }
    pairs = [(split, name) for split in range(SPLITS) for name in names]
    if missing:
        pairs.sort(key=lambda pair: names.index(pair[1]))
    for split, table in pairs:
        rivals = [*models(KINDS[which], 0), *(["WideNet"] if only and "WideNet" in only else [])]
        rivals = [
            name for name in rivals if not (only and name not in only) and name not in have.get((table, split), {})
        ]
        for name in ("NTK", *rivals) if rivals or not missing else ():
            lock = (place / f".{which}-{table}-{split}-{name.replace(' ', '-')}").open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue  # another run is at it
            done = {(one["table"], one["split"], one["model"]): one for one in lines(file)}
            own = done.get((table, split, "NTK"))
            if (table, split, name) in done or (own is None and name != "NTK"):
                continue
            if time.monotonic() > end:
                return
            found = part(which, table, split, name, max(LEAST, own["seconds"] if own else 0.0))
            with file.open("a") as sink:
                sink.write(json.dumps(found) + "\n")


def restore(place: Path) -> None:
    """The committed results as parts again."""
    place.mkdir(parents=True)
    result = committed()
    for row in result["rows"]:
        kind = row.pop("kind")
        if kind in ("times", "copies"):
            found = [row]
        else:
            elsewhere = row.pop("elsewhere", {})
            shared = {name: row[name] for name in ("table", "split", "n", "d", "classes")}
            ours = {name: row[name] for name in ("loo", "loo_lower", "loo_upper", "loo_raw", "chosen", "variance")}
            found = [
                shared | {"model": name, "machine": elsewhere.get(name, result["machine"])} | (ours if name == "NTK" else {})
                | {key: value for key, value in zip(COLUMNS, own, strict=True) if value is not None}
                for name, own in row["models"].items()
            ]  # fmt: skip
        with (place / f"{kind}.jsonl").open("a") as sink:
            sink.writelines(json.dumps(one) + "\n" for one in found)


def gather(place: Path) -> None:
    """Write benchmarks/results/estimators.json from the parts in a place: a line a split, on which every model was run."""
    splits: dict[tuple[str, str, int], dict[str, Any]] = {}
    for kind in KINDS:
        for one in lines(place / f"{kind}.jsonl"):
            splits.setdefault((kind, one["table"], one["split"]), {}).setdefault(one["model"], one)
    order = sorted({table for kind, table, _ in splits if kind == "uci"} | set(tables(10**9)))
    rows = []
    for (kind, table, split), models in sorted(splits.items()):
        if "NTK" not in models:
            continue
        ours = models["NTK"]
        row = {"kind": kind, "table": table, "split": split, "n": ours["n"], "d": ours["d"], "classes": ours["classes"]}
        row |= {"half": order.index(table) % 2} if kind == "uci" else {}
        row |= {name: round(ours[name], 5) for name in ("loo", "loo_lower", "loo_upper", "loo_raw")}
        row |= {"chosen": ours["chosen"], "variance": ours.get("variance")}
        elsewhere = {name: one["machine"] for name, one in models.items() if one["machine"] != ours["machine"]}
        row["models"] = {
            name: [
                round(one[key], 5) if key in one and (key != "seconds" or name not in elsewhere) else None
                for key in COLUMNS
            ]
            for name, one in models.items()
        }
        row |= {"elsewhere": elsewhere} if elsewhere else {}
        rows.append(row)
    rows += [
        {"kind": "times", **{key: round(value, 2) for key, value in one.items()}}
        for one in lines(place / "times.jsonl")
    ]
    rows += [{"kind": "copies", **one} for one in lines(place / "copies.jsonl")]
    text = ",\n".join(json.dumps(row) for row in rows)
    note = "models: error on the held fold of three, ECE, log loss, seconds of one thread, settings tried; of a regression the mean square over the variance of the held rows; elsewhere: models run on another machine, in our time there"
    head = json.dumps({"machine": processor(), "note": note})[:-1]
    (RESULTS / "estimators.json").write_text(f'{head}, "rows": [\n{text}\n]}}\n')


def copies(place: Path) -> None:
    """Errors on held rows that equal a fitted row, and on the others, where many do: a tree knows copies by heart."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold
    from threadpoolctl import threadpool_limits

    import overparam as op

    threadpool_limits(1)
    done = {(one["table"], one["split"]) for one in lines(place / "copies.jsonl")}
    for table, split in itertools.product(COPIED, range(SPLITS)):
        if (table, split) in done:
            continue
        data = op.load(f"uci/{table}", key=0)
        X, y = np.asarray(data.X, dtype=np.float64), data.codes
        fitted, held = list(StratifiedKFold(SPLITS, shuffle=True, random_state=0).split(X, y))[split]
        known = {row.tobytes() for row in X[fitted]}
        copied = np.array([row.tobytes() in known for row in X[held]])
        found: dict[str, Any] = {"table": table, "split": split, "copied": float(copied.mean())}
        grown = {"n_estimators": TREES, "random_state": split}
        for name, model in (
            ("NTK", op.NTKClassifier()),
            ("random forest", RandomForestClassifier(**grown)),
            ("extra trees", ExtraTreesClassifier(**grown)),
        ):
            wrong = model.fit(X[fitted], y[fitted]).predict(X[held]) != y[held]
            found[name] = [float(wrong[copied].mean()), float(wrong[~copied].mean())]
        with (place / "copies.jsonl").open("a") as sink:
            sink.write(json.dumps(found) + "\n")


def times(place: Path) -> None:
    """Seconds of the processor for a fit of n drawn rows: ours, 500 trees, and a grid of 25 support vector machines.

    Of the grid three settings are fitted in three folds, and their mean stands for every one of the 25, and the last fit.
    """
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold
    from sklearn.svm import SVC
    from threadpoolctl import threadpool_limits

    import overparam as op

    threadpool_limits(1)
    place.mkdir(parents=True, exist_ok=True)
    op.NTKClassifier().fit(
        [[0.0], [1.0], [2.0]], [0, 1, 1]
    )  # what is imported when first used is imported once a process
    for n in (250, 500, 1_000, 2_000, 4_000, 10_000):
        X, y = make_classification(n, 20, n_informative=8, n_classes=3, class_sep=0.7, random_state=0)
        if any(one["n"] == n for one in lines(place / "times.jsonl")):
            continue
        clock = time.process_time
        start = clock()
        op.NTKClassifier().fit(X, y)
        ours = clock() - start
        start = clock()
        RandomForestClassifier(TREES, n_jobs=1, random_state=0).fit(X, y)
        trees = clock() - start
        scaled, spent, settings = (X - X.mean(axis=0)) / X.std(axis=0), 0.0, ((1.0, 0.05), (100.0, 0.01), (10.0, 0.1))
        for C, gamma in settings:
            for fitted, held in StratifiedKFold(3).split(X, y):
                start = clock()
                SVC(C=C, gamma=gamma).fit(scaled[fitted], y[fitted]).predict(scaled[held])
                spent += clock() - start
        grid = spent * 25 / len(settings)
        with (place / "times.jsonl").open("a") as sink:
            sink.write(json.dumps({"n": n, "NTK": ours, "forest": trees, "grid": grid}) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("place", type=Path)
    parser.add_argument("--tables", choices=KINDS, default="uci")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--until", type=float, default=3600.0)
    parser.add_argument("--only")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--copies", action="store_true")
    parser.add_argument("--restore", action="store_true")
    parser.add_argument("--gather", action="store_true")
    parser.add_argument("--missing", action="store_true")
    given = parser.parse_args()
    for asked, work in ((given.times, times), (given.copies, copies), (given.restore, restore), (given.gather, gather)):
        if asked:
            sys.exit(work(given.place))
    only = given.only.split(",") if given.only else None
    run(given.place, given.tables, given.rows, given.until, only, given.missing)
