"""The table of cases: what README.md, docs/ and examples/ tell a user to run, and every study at smoke scale.

Sizes are those of the documents where that takes a few minutes on one core. `reduced` says what was made smaller.
`overparam datasets` and `overparam doctor` are left out: they tell of the machine, not of the package.
"""

from __future__ import annotations

from dataclasses import dataclass

STUDIES = (
    "fine-grained-fig1", "fine-grained-fig2", "laziness", "beyond-two-layers", "beyond-kernels-fig2",
    "beyond-kernels-fig3", "beyond-kernels-theorem2", "convergence-fig1", "convergence-laws", "laws-by-width",
    "convergence-rates",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One thing to run: a command line, a page of Python blocks or an example.

    `line` is a command line of `overparam` (its result goes to the folder of the case's name), or the path of a
    script from this folder (`pages/…`) or from the root of the repository (`examples/…`). `words` says that what it
    prints is what there is to compare. `needs` names data sets of OVERPARAM_DATA or modules that may be absent.
    """

    name: str
    line: str
    source: str
    reduced: str = ""
    words: bool = False
    needs: tuple[str, ...] = ()

    @property
    def is_script(self) -> bool:
        """Whether Python runs it, not the command line."""
        return self.line.split()[0].endswith(".py")


QUICK_COMPARE = "--sizes 60,120,240 --seeds 2 --width 40 --steps 100 --max-test 200"
FIXED = "sizes, width and steps given: otherwise they follow the speed of the machine"

CASES: tuple[Case, ...] = (
    # Python of the pages, as it stands there.
    Case("page-readme", "pages/readme.py", "README.md"),
    Case("page-start", "pages/start.py", "docs/start.md"),
    Case("page-training", "pages/training.py", "docs/training.md"),
    Case("page-coming-from-neural-tangents", "pages/coming_from_neural_tangents.py", "docs/coming_from_neural_tangents.md"),
    Case("page-kernels", "pages/kernels.py", "docs/kernels.md"),
    Case("page-audit", "pages/audit.py", "docs/audit.md"),
    Case("page-landscapes", "pages/landscapes.py", "docs/landscapes.md"),
    Case("page-compare", "pages/compare.py", "docs/compare.md", FIXED),
    # The command line.
    Case("analyze", "analyze", "README.md, docs/start.md, docs/index.md"),
    Case("analyze-table", "analyze table.csv", "README.md, docs/start.md, docs/index.md"),
    Case("analyze-label", "analyze table.csv --label outcome", "docs/start.md"),
    Case("train", "train", "README.md, docs/training.md"),
    Case("train-table", "train table.csv", "docs/index.md, docs/training.md"),
    Case("compare", f"compare {QUICK_COMPARE}", "docs/compare.md", FIXED),
    Case("compare-table", f"compare table.csv --label outcome {QUICK_COMPARE.replace('60,120,240', '45,90,180')}", "README.md, docs/compare.md", FIXED),
    Case("compare-parity", f"compare parity {QUICK_COMPARE}", "README.md, docs/compare.md", FIXED),
    Case("compare-mnist", f"compare mnist --classes 3,5 {QUICK_COMPARE}", "docs/compare.md", FIXED, needs=("mnist",)),
    Case(
        "audit-mnist", "audit fully-connected mnist --width 128 --depth 5 --train 200 --effort quick",
        "README.md, docs/audit.md", "width 1024 to 128, 1,000 rows to 200, quick", needs=("mnist",),
    ),
    Case("audit-plan", "audit residual digits --plan", "docs/audit.md", words=True),
    Case("train-deep", "train digits --network fully-connected --depth 3 --train 200", "docs/audit.md"),
    Case(
        "audit-run", "audit fully-connected digits --train 200 --run train-deep --effort quick", "docs/audit.md",
        "effort usual to quick",
    ),
    Case("landscape", "landscape fully-connected digits", "README.md"),
    Case(
        "train-kept", "train digits --network fully-connected --keep-weights", "docs/landscapes.md",
    ),
    Case("landscape-run", "landscape fully-connected digits --run train-kept", "docs/landscapes.md"),
    Case(
        "landscape-trajectory", "landscape fully-connected digits --run train-kept --plane trajectory",
        "docs/landscapes.md",
    ),
    Case("landscape-at", "landscape fully-connected digits --run train-kept --at 0,10,200", "docs/landscapes.md"),
    Case("reproduce-list", "reproduce --list", "README.md, docs/studies.md", words=True),
    *(Case(f"study-{name}", f"reproduce {name} --scale smoke", "docs/studies.md") for name in STUDIES),
    # Scripts of examples/.
    Case("example-predict-a-curve", "examples/predict_a_curve.py", "docs/examples.md", words=True),
    Case("example-complexity-of-a-table", "examples/complexity_of_a_table.py", "docs/examples.md", words=True),
    Case("example-rows", "examples/rows_that_ruin_the_smallest_eigenvalue.py", "docs/examples.md", words=True),
    Case("example-which-width-is-lazy", "examples/which_width_is_lazy.py", "docs/examples.md", words=True),
    Case("example-train-and-compare", "examples/train_and_compare.py", "docs/examples.md", words=True),
    Case("example-kernel-of-a-network", "examples/kernel_of_a_network.py", "docs/examples.md", words=True),
    Case("example-audit-a-torch-mlp", "examples/audit_a_torch_mlp.py {out}", "docs/examples.md", words=True, needs=("torch",)),
    Case("example-audit-a-torch-cnn", "examples/audit_a_torch_cnn.py {out}", "docs/examples.md", words=True, needs=("torch",)),
)  # fmt: skip


def table() -> str:
    """The text of table.csv: 240 rows by a fixed rule, `score` a number, `outcome` one of two words, one in 16 wrong."""
    state, lines = 12345, ["age,income,visits,colour,outcome,score"]

    def draw() -> int:
        nonlocal state
        state = (1103515245 * state + 12345) % 2**31
        return state >> 12

    for _ in range(240):
        age, income, visits = 18 + draw() % 60, 900 + draw() % 5000, draw() % 13
        colour = ("red", "green", "blue")[draw() % 3]
        wins = (age > 45) ^ (income > 3000) ^ (draw() % 16 == 0)
        score = round(0.03 * age + visits**2 / 20 + (colour == "red") + (draw() % 100) / 200, 3)
        lines.append(f"{age},{income},{visits},{colour},{'yes' if wins else 'no'},{score}")
    return "\n".join(lines) + "\n"
