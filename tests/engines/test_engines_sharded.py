"""Products on eight devices: the same as on one, in a process of its own where JAX's CPU is eight."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from overparam.core.kernel import AbstractKernel
from overparam.core.progress import silent
from overparam.engines import gram
from overparam.engines.sharded import ShardedGram
from overparam.kernels import FullyConnected, TwoLayer
from overparam.spectrum.preconditioner import Preconditioner

RNG = np.random.default_rng(5)
REAL = RNG.standard_normal((203, 5))
REAL[7] = -REAL[100] * 3
REAL[150] = REAL[3] + 1e-9
PIXELS = RNG.integers(0, 256, (203, 9)).astype(np.uint8)
PIXELS[20] = PIXELS[199]

PROGRAM = """
import json, sys
import numpy as np
import jax
from overparam import quadrature, solve
from overparam.engines import gram
from overparam.engines.sharded import ShardedGram
from overparam.kernels import FullyConnected, TwoLayer
import overparam.engines.sharded as sharded
import overparam.spectrum.preconditioner as preconditioner
from overparam.core.progress import silent
sharded.CPU_TILE = 8  # several tiles a share
preconditioner.BLOCK = 100  # two blocks of 96 rows, one of 8 and one of 3
rows = np.load(sys.argv[1])
V = rows["V"]
found = {"devices": len(jax.devices())}
asked = [("PIXELS", TwoLayer()), ("REAL", FullyConnected(depth=2)), ("REAL", TwoLayer())]
for name, kernel in asked if len(jax.devices()) == 8 else asked[-1:]:
    H = gram(kernel, rows[name], device="all")
    assert isinstance(H, ShardedGram)
    found[f"{name} {type(kernel).__name__}"] = {
        "product": (H @ V).tolist(), "squares": H.square_sum(), "repaired": H.repaired, "device": H.device}
found["again"] = bool(np.array_equal(H @ V, H @ V))
if len(jax.devices()) == 8:
    z = solve(H, V[:, 0], 0.1, method="conjugate gradients", columns=20)
    found["solve"] = [z.bracket.lower, z.bracket.upper]
    kept = (np.arange(203)[:, None] % 3 != np.arange(3)).astype(float)
    with H.arithmetic():
        near = preconditioner.Preconditioner(H, 0.1, np.arange(20, 60), silent, kept)
        found["led"] = np.asarray(near.solve(H.to_device(V))).tolist()
    found["rows of blocks"] = [[s.data.shape[0] for s in block.addressable_shards] for block in near._blocks]
    found["all rows on one"] = "U" in vars(H._one._rows)
    found["nodes"] = int(quadrature(H, V[:, 0], 12).products)
found["x64"] = bool(jax.config.jax_enable_x64)
print(json.dumps(found))
"""


def on(devices: int, folder: Path) -> dict:
    V = np.random.default_rng(6).standard_normal((203, 3))
    np.savez(folder / "rows.npz", REAL=REAL, PIXELS=PIXELS, V=V)
    many = f"--xla_force_host_platform_device_count={devices} --xla_cpu_multi_thread_eigen=false"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {many}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, str(folder / "rows.npz")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout) | {"V": V}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict:
    return on(8, tmp_path_factory.mktemp("rows"))


def check_product(found: dict, name: str, kernel: AbstractKernel) -> None:
    X = {"REAL": REAL, "PIXELS": PIXELS.astype(float)}[name]
    H = gram(kernel, X, "dense", device="cpu")
    made, V = found[f"{name} {type(kernel).__name__}"], found["V"]
    room = 4 * (H.rounding + H.product_rounding) * np.linalg.norm(V)
    assert np.abs(np.array(made["product"]) - H @ V).max() <= room
    assert made["squares"] == pytest.approx(H.square_sum(), rel=1e-12)
    assert made["repaired"] == (H.repaired if name == "REAL" else 0)
    assert made["device"].startswith(f"{found['devices']} × cpu")
    assert found["again"]
    assert not found["x64"]  # the user's setting is left alone


@pytest.mark.parametrize(
    ("name", "kernel"), [("PIXELS", TwoLayer()), ("REAL", FullyConnected(depth=2)), ("REAL", TwoLayer())]
)
def test_products_are_those_of_one_processor(found: dict, name: str, kernel: AbstractKernel) -> None:
    assert found["devices"] == 8
    check_product(found, name, kernel)


def test_an_odd_number_of_devices(tmp_path: Path) -> None:
    found = on(3, tmp_path)
    assert found["devices"] == 3
    check_product(found, "REAL", TwoLayer())


def test_what_is_built_on_products_works(found: dict) -> None:
    H = gram(TwoLayer(), REAL, "dense", device="cpu")
    y = found["V"][:, 0]
    form = float(y @ np.linalg.solve(H.dense() + 0.1 * np.eye(203), y))
    lower, upper = found["solve"]
    assert lower <= form * (1 + 1e-10)
    assert form <= upper * (1 + 1e-10)
    assert found["nodes"] == 12


def test_columns_that_lead_a_solve_are_shared_out(found: dict) -> None:
    assert found["rows of blocks"] == [[12] * 8, [12] * 8, [1] * 8, [3] * 8]  # the last three rows are on all
    assert not found["all rows on one"]
    H = gram(TwoLayer(), REAL, "dense", device="cpu")
    kept = (np.arange(203)[:, None] % 3 != np.arange(3)).astype(float)
    near = Preconditioner(H, 0.1, np.arange(20, 60), silent, kept)
    here = near.solve(found["V"])
    # on a device the entries of rows with themselves come from cosines off by 2 d ε, and keep half their digits; M⁻¹ is 1/shift at most
    room = np.sqrt(4 * 5 * np.finfo(float).eps) * float(H.diagonal().sum()) / near.shift * np.linalg.norm(here)
    assert np.abs(np.array(found["led"]) - here).max() <= room


def test_one_device_is_a_ring_of_one() -> None:
    H = gram(TwoLayer(), REAL, device="all")
    assert isinstance(H, ShardedGram)
    other = gram(TwoLayer(), REAL, "dense", device="cpu")
    room = 4 * (H.rounding + H.product_rounding) * np.sqrt(203)
    assert np.abs(H @ np.ones(203) - other @ np.ones(203)).max() <= room


def test_what_cannot_be_on_all_devices_is_refused() -> None:
    with pytest.raises(ValueError, match="device='all' makes products"):
        gram(TwoLayer(), REAL, "dense", device="all")
