"""The answers of an analysis as frozen data: numbers with brackets, curves, rows to look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from overparam.core.bracketed import Assumption, Bracketed, Interval
from overparam.theory import StepsToLoss, Term
from overparam.theory.lazy_regime import ALIGNMENT


@dataclass(frozen=True, eq=False)
class Rival:
    """A model of another kind: what a random forest gets wrong on the rows that the leading error is of."""

    error: Interval
    rows: int
    """Rows it was grown on."""
    trees: int
    folds: int
    """That were left out in turn; 0 where it was grown once and measured on the test rows."""


CopyVerdict = Literal["none", "copies", "coincidences", "unclear", "dependent", "windows"]


@dataclass(frozen=True, eq=False)
class Copies:
    """Rows that must not answer for each other; numbered as in the source."""

    verdict: CopyVerdict
    """"coincidences": rows of a few discrete columns happen to be equal, and are no copies; "unclear": near rows in fewer
    than three dimensions, or heaps of them, where copies cannot be told from chance or clusters; "dependent": rows lie in
    groups far from all others whose labels agree too often; "windows": rows cut
    from a series overlap."""
    copied: int
    """Rows beyond the first of each that is copied; 0 where the verdict is not "copies"."""
    equal_rows: int
    """How many rows equal another."""
    near_rows: int
    """How many are near another, or equal but for a column or two."""
    z: float | None
    """By how many standard errors the labels of equal rows agree more often than chance would have it; None without equal
    rows, or where the rest of the data leaves no doubt about their labels."""
    near_z: float | None
    """The same of rows near one another."""
    dimension: float | None
    """In which the rows lie around one another."""
    groups: int
    listed: tuple[tuple[int, ...], ...]
    """The first groups, with up to eight rows each."""
    kinds: tuple[Literal["equal", "near"], ...]
    """Of each of them."""
    but_for: tuple[str, ...] = ()
    """Columns in which copies differ that are equal in all others."""
    overlapping: int = 0
    """Rows that share some of their columns with another, moved."""
    shift: int | None = None
    """By how many columns windows are moved, mostly."""
    dependent: int = 0
    """Rows in groups that belong together though they are no copies; 0 where labels do not say so."""
    doubtful: bool = False
    """Whether more rows may belong together, where labels are too few to tell."""


@dataclass(frozen=True, eq=False)
class SeenRows:
    """Test rows that equal a training row, or nearly do: pairs, by the number of the training row."""

    train: np.ndarray
    """Rows of the training set, numbered as in its source; the first that is alike."""
    test: np.ndarray
    """Positions among the test rows."""
    near: np.ndarray
    """Whether they are nearly equal, not equal."""
    copies: np.ndarray
    """Whether they count as copies and are left out of the test error; else such rows come about by chance, or may."""
    looked_at: int
    """Test rows in which rows that are nearly equal were looked for: the first of very many."""
    grouped: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Positions of test rows whose group, as the user names them, is among the training rows too."""

    def new(self, count: int) -> np.ndarray:
        """(count,) which test rows are no copies of training rows, and of no group that these have."""
        found = np.ones(count, dtype=bool)
        found[self.grouped] = False
        found[self.test[self.copies]] = False
        return found


@dataclass(frozen=True, eq=False)
class ClassFound:
    """How many rows of a class are put into it."""

    name: str
    rows: int
    recall: Interval | None
    """None of a class without rows."""


@dataclass(frozen=True, eq=False)
class TargetError:
    """How well one target of a regression is predicted."""

    name: str
    explained: Interval
    """R²."""
    residual: Interval
    """The root of the mean square in the target's own units."""


@dataclass(frozen=True, eq=False)
class Scores:
    """An error and what stands behind it, all on the same rows."""

    error: Interval
    rows: int
    guess: float
    """Of always naming the class that is commonest on these rows, or their mean."""
    balanced: Interval | None
    auc: Interval | None
    explained: Interval | None
    residual: Interval | None
    recalls: tuple[ClassFound, ...]
    """Of every class, in the order of the classes; their mean is 1 less the balanced error."""
    targets: tuple[TargetError, ...]
    """Of every target; the mean of R² over them is `explained`."""
    cannot_tell: str = ""
    """Why the error says nothing of what can be learned: its interval goes from learned well to guessing, or few rows decide."""


Leading = Literal[
    "the test set",
    "your groups left out",
    "copies left out together",
    "near rows left out together",
    "blocks of overlapping rows left out",
    "rows left out one at a time",
    "rows left out in five folds",
]


DoubtKind = Literal["one at a time", "near rows", "in order", "made up", "windows", "nearest", "folds"]


@dataclass(frozen=True, eq=False)
class Doubt:
    """Why new rows may fare worse than the error that leads says: what another way of leaving rows out gives."""

    kind: DoubtKind
    """"one at a time", "near rows": the same rows left out alone, or with all that is near them. "in order": the rows
    beside each in the file left out too, where they tell of it what others of its class do not. "made up":
    rows between two others of their class, as oversampling makes them, left out altogether. "windows": rows overlap, and
    those at the edge of a block share columns with the next. "nearest": the nearest rows of each, whatever they are, left out too, where
    they tell of it what independent rows would not. "folds": a fifth of the rows left out at once, in results of earlier versions."""
    error: Interval | None
    """That way; None where there is no number to it, and no green."""
    rows: int = 0
    """Rows it is about, where that is known."""
    bounds: bool = True
    """Whether new rows fare no worse than this error: a verdict is good where that would be good too. If not, as where nobody knows how many rows are of
    one person, no verdict is good. None is bad for a doubt."""


@dataclass(frozen=True, eq=False)
class ErrorEstimate:
    """How well will a model do here?

    Errors are shares of rows got wrong by the tuned fit on rows it has not seen; for regression mean squares over the
    variance of the targets (1 is guessing the mean). Intervals include the choice of kernel and ridge.
    """

    value: float
    """The one that leads; `lower` and `upper` are its interval."""
    lower: float
    upper: float
    level: float
    leading: Leading
    rows: int
    """Rows it was measured on; so are `guess`, `balanced`, `auc`, `explained`, `residual`, `recalls` and `targets`."""
    guess: float
    """Of always naming the class that is commonest on these rows, or their mean."""
    alone: Interval
    """Every row left out alone."""
    together: Interval | None
    """Rows that are or may be copies of each other left out together; None where there are none."""
    test: Interval | None
    balanced: Interval | None
    """The mean over classes of the share of their rows got wrong; None for regression."""
    auc: Interval | None
    """The chance that a row of a class is put before one of another, the mean over classes."""
    explained: Interval | None
    """R²; None for classes."""
    residual: Interval | None
    """The root of the mean square in the target's own units; None for classes, or several targets."""
    kernel: str
    ridge: float
    kernels_tried: int
    notes: tuple[str, ...]
    """What was not done on all rows."""
    rival: Rival | None
    recalls: tuple[ClassFound, ...] = ()
    """Of every class, how many of its rows are put into it."""
    targets: tuple[TargetError, ...] = ()
    """Of every target of a regression."""
    left_out: Scores | None = None
    """The same of training rows left out, where a test set leads; None where they lead."""
    test_rows: int = 0
    """Test rows that are no copies of training rows."""
    test_aside: str = ""
    """Why the test set does not lead, where there is one."""
    test_grouped: int = 0
    """Test rows left out because their group is among the training rows too."""
    folds: int = 0
    """Folds in which training rows left, each at once, where there are too many for a closed form; 0: they left one at a time."""
    test_looked_at: int = 0
    """Test rows, the first of them, in which rows nearly equal to training rows were looked for; 0 where that is all."""
    doubts: tuple[Doubt, ...] = ()
    """Other ways of leaving rows out that green has to stand."""
    cannot_tell: str = ""
    """Why these rows cannot tell how well a model will do; nothing where they can, the training rows or the test rows."""

    def doubt(self, kind: DoubtKind) -> Doubt | None:
        """The first of a kind."""
        return next((one for one in self.doubts if one.kind == kind), None)

    @property
    def interval(self) -> Interval:
        """The one that leads."""
        return Interval(self.value, self.lower, self.upper, self.level)

    @property
    def left_out_error(self) -> Interval:
        """Of training rows left out, with the groups that leave together: the one that leads where no test set does."""
        return self.interval if self.left_out is None else self.left_out.error


@dataclass(frozen=True, eq=False)
class Learnability:
    """Can a wide network learn these labels?

    Errors are shares of rows got wrong when fitted to all other rows; for regression they are mean squared
    residuals over the variance of the targets (1 is guessing the mean).
    """

    baseline_error: float
    left_out_error: float
    """With the ridge that leave-one-out prefers (as early stopping would)."""
    left_out_error_end: float
    """Trained to the end."""
    ridge: float
    ridges_tried: np.ndarray
    """(ridge, mean squared leave-one-out residual)."""
    margins: np.ndarray
    """How far the right class is ahead when its row is left out; empty for regression."""
    margins_end: np.ndarray
    """The same, trained to the end."""
    shuffled_errors_end: np.ndarray
    """`left_out_error_end` of shuffled labels: what there is to expect of labels without structure."""
    complexity: Bracketed
    ridged_complexity: Bracketed
    ridged_by: float
    random_complexities: np.ndarray
    random_ridged_complexities: np.ndarray
    shuffled_complexities: np.ndarray
    """Of the labels themselves in random order: what is left of `random` where classes differ in size."""
    shuffled_ridged_complexities: np.ndarray
    worst_complexity: Bracketed | None
    """None where H is singular to rounding: no number bounds it."""
    alignment: float
    effective_dimension: float | None

    @property
    def simpler_than_random(self) -> float:
        """Mean complexity of random labels over that of the true ones (ridged where the raw one is not certified)."""
        return self._ratio(self.random_complexities, self.random_ridged_complexities)

    @property
    def simpler_than_shuffled(self) -> float:
        """The same against the labels in random order, which a difference in class sizes does not flatter."""
        return self._ratio(self.shuffled_complexities, self.shuffled_ridged_complexities)

    def _ratio(self, raw: np.ndarray, ridged: np.ndarray) -> float:
        if self.complexity.certified:
            return float(raw.mean()) / self.complexity.value
        return float(ridged.mean()) / self.ridged_complexity.value


@dataclass(frozen=True, eq=False)
class Speed:
    """How fast? Rates are for the summed squared loss; a mean loss takes n times as much."""

    largest_rate: Bracketed
    best_rate: Bracketed
    rate: float
    """The rate of the curves: half the certified stable limit."""
    lambda_max: Bracketed
    lambda_min: Bracketed
    steps: np.ndarray
    true: np.ndarray
    """Loss over its start: rows are value, lower, upper; the same in `random` and `worst`."""
    random: np.ndarray
    worst: np.ndarray
    certified: np.ndarray
    targets: tuple[StepsToLoss, ...]
    """Steps until the training loss is a share of its start; values are None where no upper side is certified."""
    early_steps: np.ndarray
    early_errors: np.ndarray
    early_mean_squares: np.ndarray
    early_rows: int
    early_on: str
    """Which rows the early-stopping curve was measured on."""


@dataclass(frozen=True, eq=False)
class NewData:
    """How well on new data?"""

    left_out_error: float
    test_error: float | None
    """Trained to the end; None without a test set."""
    test_error_ridged: float | None
    test_mean_absolute: float | None
    test_rows: int
    bound: float | None
    bound_vacuous: bool
    bound_terms: tuple[Term, ...]
    bound_note: str


@dataclass(frozen=True, eq=False)
class Problems:
    """Is anything wrong with the data? Row numbers are those of the source."""

    duplicate_rows: tuple[tuple[int, ...], ...]
    contradictions: tuple[tuple[int, ...], ...]
    near_parallel: tuple[tuple[int, int, float], ...]
    test_in_train: tuple[tuple[int, int], ...]
    """(training row, test row) that are equal and count as copies."""
    constant_features: tuple[str, ...]
    scale_ratio: float | None
    """Largest over smallest standard deviation of the features, before preprocessing."""
    smallest_class: tuple[str, int] | None
    counts: dict[str, int]
    left_out_error_unrepeated: float | None
    """The leave-one-out error on rows that no other row equals; None where no row repeats, or all do."""
    test_near_train: tuple[tuple[int, int], ...] = ()
    """(training row, test row) that are nearly equal."""


@dataclass(frozen=True, eq=False)
class Trust:
    """When may this be believed?"""

    assumptions: tuple[Assumption, ...]
    movement: np.ndarray
    """‖W(s) − W(0)‖_F at the steps of the speed curves: rows are value, lower, upper."""
    lazy_steps: int | None
    """Steps that laziness is taken after; None is the end of training, which a singular H may never reach."""
    widths: np.ndarray
    kappas: np.ndarray
    laziness: np.ndarray
    """After `lazy_steps`, one row a κ, one column a width."""
    flips: np.ndarray
    width_for_lazy: float | None
    """The width at κ = 1 from which the whole run is lazy (laziness ≤ 0.1); None: not known."""
    theorem_width: float | None
    """What Theorem 3.1 asks for with its constant set to 1."""
    alignment: float = ALIGNMENT
    """The cosine between a neuron's movement and a row, by which `flips` follow from `laziness`."""


@dataclass(frozen=True, eq=False)
class NoiseSweep:
    """Complexity, and loss and error on new rows, as a growing share of labels is redrawn at random."""

    rates: np.ndarray
    complexity: np.ndarray
    complexity_ridge: float
    """The ridge in `complexity`: 0, or 0.1 times the mean diagonal where repeated rows would make it explode."""
    mean_absolute: np.ndarray
    error: np.ndarray
    ridge: float
    rows: str


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues, largest first, and the share of the labels' square on each eigenvector."""

    eigenvalues: np.ndarray
    true: np.ndarray
    random: np.ndarray
    whole: bool
    """Whether all eigenvalues are there, or only the largest."""
