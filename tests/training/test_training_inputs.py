"""What users bring: their own functions, odd arguments, and one line for each thing that cannot be; nothing global changes."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import NET, NEW, REAL, SIGNS, D, N, X, gradient, in_order, start

from overparam.core import machine
from overparam.core.spec import spec_of
from overparam.data import Dataset
from overparam.networks import FullyConnected, Given, TwoLayer
from overparam.training import (
    GradientDescent,
    Stop,
    gradient_descent,
    loop,
    sgd,
    sgd_one_sample,
    smoothed_sgd,
    sweep,
    train,
)

DATA = in_order(X, SIGNS)


def mlp(params, x):
    for W, b in params["hidden"]:
        x = jnp.tanh(x @ W + b)
    return x @ params["out"]


def mlp_params(seed=0):
    rng = np.random.default_rng(seed)
    return {"hidden": [(rng.standard_normal((4, 6)), np.zeros(6)), (rng.standard_normal((6, 5)), np.zeros(5))],
            "out": rng.standard_normal(5)}  # fmt: skip


def test_a_plain_function_with_a_tree_of_weights():
    params = mlp_params()
    run = gradient_descent(mlp, DATA, lr=0.01, steps=3, params=params, measures=("movement", "flips"))
    assert run.layers == ("hidden.0.0", "hidden.0.1", "hidden.1.0", "hidden.1.1", "out")
    assert run.movement.shape == (4, 5)
    assert "flips" not in run.records
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(lambda w: jnp.sum((mlp(w, X) - SIGNS) ** 2) / 2))
        w = params
        for _ in range(3):
            w = jax.tree.map(lambda a, b: a - 0.01 * np.asarray(b), w, slope(w))
        np.testing.assert_allclose(run.params.trained["hidden"][0][0], np.asarray(w["hidden"][0][0]), rtol=1e-12)
        np.testing.assert_allclose(run.params.trained["out"], np.asarray(w["out"]), rtol=1e-12)
    np.testing.assert_array_equal(params["out"], mlp_params()["out"])  # the user's own stay as they were


def test_an_equinox_model():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(4, "scalar", 8, 1, key=jax.random.key(0))
    trained, rest = eqx.partition(model, eqx.is_inexact_array)

    def apply(trained, x):
        return jax.vmap(eqx.combine(trained, rest))(x)

    run = sgd(apply, DATA, lr=0.05, steps=30, batch=4, params=trained, measures=("movement",))
    assert run.loss[-1] < run.loss[0]
    assert run.layers == ("layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias")
    back = eqx.combine(run.params.trained, rest)  # the same class comes back, to be used as it was
    outputs = np.asarray(jax.vmap(back)(jnp.asarray(X, jnp.float32)))
    u = gradient_descent(apply, DATA, lr=0.05, steps=0, params=run.params.trained, measures=("outputs",)).outputs[-1]
    np.testing.assert_allclose(outputs, u, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"a (jitted_function|function|PjitFunction|custom_jvp).* at .*eqx\.partition"):
        sgd(lambda m, x: jax.vmap(m)(x), DATA, lr=0.1, steps=1, params=eqx.nn.MLP(4, 1, 8, 1, key=jax.random.key(0)))


def test_a_closure_over_what_is_not_trained():
    params = start()
    a = jnp.asarray(params.fixed["a"], jnp.float32)

    def apply(W, x):
        return jax.nn.relu(x @ W.T) @ a / 4

    run = gradient_descent(apply, DATA, lr=0.1, steps=1, params=params.trained["W"], measures=())
    wanted = params.trained["W"] - 0.1 * gradient(params.trained["W"], params.fixed["a"], X, SIGNS)
    np.testing.assert_allclose(run.params.trained, wanted, rtol=1e-12)
    assert run.layers == ("weights",)


def test_starting_from_weights_of_ones_own():
    W = start(key=9).trained["W"]
    from_tree = gradient_descent(NET, DATA, lr=0.1, steps=2, params={"W": W}, measures=())
    from_params = gradient_descent(NET, DATA, lr=0.1, steps=2, params=start(key=9), measures=())
    fresh = gradient_descent(NET, DATA, lr=0.1, steps=2, key=9, measures=())
    np.testing.assert_array_equal(from_params.params.trained["W"], fresh.params.trained["W"])
    assert not np.array_equal(from_tree.params.trained["W"], fresh.params.trained["W"])  # its signs are those of key 0
    np.testing.assert_array_equal(from_tree.params.fixed["a"], start(key=0).fixed["a"])


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {"V": np.ones((16, 4))},
            r"`params` has no 'W'; TwoLayer\(width=16\) on 4 features has W \(16, 4\), a \(16,\)",
        ),
        ({"W": np.ones((16, 5))}, r"`params` has shape \(16, 5\) at 'W'; TwoLayer"),
        ({"W": np.ones((16, 4)), "b": np.ones(2)}, r"`params` has 'b'; TwoLayer"),
        (np.ones((16, 4)), r"`params` has no 'W'; TwoLayer"),
        (start(net=TwoLayer(8)), r"`params` has shape \(8, 4\) at 'W'; TwoLayer"),
    ],
)
def test_weights_of_another_network_are_one_line(params, said):
    with pytest.raises(ValueError, match=said) as caught:
        gradient_descent(NET, DATA, lr=0.1, steps=1, params=params, measures=())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("function", [gradient_descent, sgd, sgd_one_sample, smoothed_sgd, sweep])
def test_an_unknown_option_is_one_line_that_names_the_function(function):
    with pytest.raises(
        ValueError, match=rf"^{function.__name__}\(\) has no option 'wrong'; it has .*record, .*"
    ) as caught:
        function(NET, DATA, lr=0.1, steps=1, wrong=3)
    assert "\n" not in str(caught.value)


def test_an_option_of_another_function():
    with pytest.raises(ValueError, match=r"gradient_descent\(\) has no option 'batch'; it has key, objective, loss, "):
        gradient_descent(NET, DATA, lr=0.1, steps=1, batch=3)
    with pytest.raises(ValueError, match=r"sweep\(\) has no option 'key', perhaps 'keys'; it has .*, momentum, "):
        sweep(NET, DATA, lr=0.1, steps=1, key=3)


def test_arguments_of_every_type():
    base = gradient_descent(NET, DATA, lr=0.1, steps=4, measures=())
    for change in (
        {"steps": np.int64(4)},
        {"steps": 4.0},
        {"lr": np.float32(0.1)},
        {"lr": jnp.asarray(0.1)},
        {"record": [4, 0, 2, 2, 1, 3]},
        {"record": np.arange(5)},
        {"record": np.int64(1)},
        {"record": range(5)},
    ):
        run = gradient_descent(NET, DATA, **{"lr": 0.1, "steps": 4, "measures": (), **change})
        np.testing.assert_allclose(run.loss, base.loss, rtol=1e-6)
        assert run.steps.tolist() == [0, 1, 2, 3, 4]
        assert run.stopped == Stop("done", 4)
    whole = gradient_descent(NET, (np.rint(10 * X).astype(int), SIGNS.astype(int)), lr=1e-3, steps=2, measures=())
    assert np.isfinite(whole.loss).all()
    single = gradient_descent(NET, (X.astype(np.float32), SIGNS), lr=0.1, steps=4, measures=())
    np.testing.assert_allclose(single.loss, base.loss, rtol=1e-5)
    assert single.params.trained["W"].dtype == np.float64


def test_no_steps_and_few_rows():
    run = gradient_descent(NET, DATA, lr=0.1, steps=0, measures=())
    assert run.steps.tolist() == [0]
    np.testing.assert_array_equal(run.params.trained["W"], start().trained["W"])
    one = Dataset(X[:1], SIGNS[:1], labels=["a"], task="binary", classes=("a", "b"))
    found = gradient_descent(NET, one, lr=0.1, steps=3, measures=("kernel", "flips"))
    assert found.loss[-1] < found.loss[0]
    text = gradient_descent(NET, (X, np.where(SIGNS > 0, "yes", "no")), lr=0.1, steps=1, measures=())
    assert "accuracy" in text.records


def test_thousands_of_records_are_found_quickly():
    run = gradient_descent(NET, DATA, lr=0.01, steps=3000, record=1, measures=())
    assert len(run.loss) == 3001


def fails(**change):
    arguments = {"network": NET, "data": DATA, "lr": 0.1, "steps": 2, "measures": (), **change}
    return gradient_descent(**arguments)


BAD = X.copy()
BAD[4, 1] = np.nan
THREE = in_order(X, np.arange(N) % 3)
LINES = {
    "steps < 0": ({"steps": -1}, "`steps` is -1; expected a whole number ≥ 0"),
    "half a step": ({"steps": 1.5}, "`steps` is 1.5; expected a whole number"),
    "steps none": ({"steps": None}, "`steps` is None; expected a whole number"),
    "steps nan": ({"steps": float("nan")}, "`steps` is nan; expected a whole number"),
    "steps text": ({"steps": "3"}, "`steps` is '3'; expected a whole number"),
    "lr 0": ({"lr": 0}, "`lr` is 0; expected a finite number > 0"),
    "lr < 0": ({"lr": -0.1}, "`lr` is -0.1; expected a finite number > 0"),
    "lr nan": ({"lr": float("nan")}, "`lr` is nan; expected a finite number > 0"),
    "lr inf": ({"lr": float("inf")}, "`lr` is inf; expected a finite number > 0"),
    "lr list": ({"lr": [0.1]}, r"`lr` is \[0.1\]; expected a finite number > 0"),
    "measure": ({"measures": ("loss", "weights")}, "`measures` has 'loss'; expected names out of outputs, movement"),
    "record 0": ({"record": 0}, "`record` is 0; expected every how many steps"),
    "record late": ({"record": [1, 7]}, r"`record` has step 7; the run has steps 0 … 2"),
    "record half": ({"record": [0.5]}, "`record` is 0.5; expected a whole number"),
    "record float": ({"record": 0.5}, "`record` is 0.5; expected every how many steps, or the steps to record"),
    "key text": ({"key": "a"}, "`key` is 'a'; expected an int or a JAX key"),
    "key none": ({"key": None}, "`key` is None; expected an int or a JAX key"),
    "key < 0": ({"key": -1}, "`key` is -1; expected an int from 0 to 4294967295"),
    "key long": ({"key": 2**40}, "`key` is 1099511627776; expected an int from 0 to 4294967295"),
    "key floats": ({"key": np.ones(2)}, "expected an int or a JAX key"),
    "tf32": ({"dtype": "tf32"}, "only NVIDIA GPUs have; use 'float32' on a CPU"),
    "dtype": ({"dtype": "float16"}, "`dtype` is 'float16'; expected 'float64', 'float32' or 'tf32'"),
    "gpu": ({"device": "gpu"}, "`device` is 'gpu' and JAX finds cpu here"),
    "device": ({"device": "abacus"}, "`device` is 'abacus' and JAX finds cpu here"),
    "convention": ({"loss": "total"}, "`loss` is 'total'; expected 'sum' or 'mean'"),
    "objective": ({"objective": "hinge"}, "`objective` is 'hinge'; expected one of"),
    "classes": (
        {"data": in_order(X, REAL), "objective": "cross-entropy"},
        "`objective` is 'cross-entropy', which needs classes, and the target of row 0 is",
    ),
    "kernel rows": ({"kernel_rows": -3}, "`kernel_rows` is -3; expected a whole number ≥ 0"),
    "pieces": ({"rows_at_once": 0}, "`rows_at_once` is 0; expected a whole number ≥ 1"),
    "stop": ({"stop_below": 0}, "`stop_below` is 0; expected a share > 0"),
    "network": ({"network": 3}, "`network` is 3; expected one of op.networks, or a function"),
    "no params": ({"network": mlp}, "has no initialisation; pass `params=`"),
    "nan": ({"data": (BAD, SIGNS)}, r"`X` has 1 NaN \(first: row 4, column 1\)"),
    "one class": ({"data": (X, np.ones(N))}, "class"),
    "one row": ({"data": (X[:1], [1])}, "has 1 row; it needs at least two"),
    "rows": ({"data": (X, SIGNS[:-1])}, r"`y` has shape \(11,\)"),
    "one output": (
        {"data": THREE},
        r"outputs have shape \(12,\) and the targets \(12, 3\); a network for 3 classes has 3",
    ),
    "outputs": (
        {"network": FullyConnected(4, depth=2, outputs=3)},
        r"outputs have shape \(12, 3\) and the targets \(12,\); give the network as many outputs as there are targets",
    ),
    "column": (
        {"network": lambda w, x: (x @ w)[:, None], "params": np.ones(D)},
        r"outputs have shape \(12, 1\) and the targets \(12,\); one output is an array \(n,\): return `outputs\[:, 0\]`",
    ),
    "shape": ({"network": lambda w, x: x[:, None] * w, "params": np.ones(D)}, r"expected \(12,\) or \(12, k\)"),
    "scalar": ({"network": lambda w, x: jnp.sum(x * w), "params": np.ones(D)}, r"turned \(12, 4\) into \(\)"),
    "pair": ({"network": lambda w, x: (x @ w, w), "params": np.ones(D)}, "gives a tuple; expected one array"),
    "no weights": ({"network": lambda w, x: x[:, 0], "params": {}}, "holds no weights to train"),
    "whole weights": (
        {"network": lambda w, x: x @ w["a"], "params": {"a": np.arange(4)}},
        "`params` has int64 at 'a'; weights are trained as floats",
    ),
    "text weights": (
        {"network": lambda w, x: x @ w["a"], "params": {"a": "relu"}},
        "`params` has a str at 'a'; expected arrays alone",
    ),
    "nan weights": ({"params": {"W": np.full((16, D), np.nan)}}, "NaN or infinite numbers at 'W'"),
}


@pytest.mark.parametrize("case", LINES)
def test_what_cannot_be_is_one_line(case):
    change, said = LINES[case]
    with pytest.raises(ValueError, match=said) as caught:
        fails(**change)
    assert "\n" not in str(caught.value)


SGD_LINES = {
    "batch": ({"batch": 0}, "`batch` is 0; expected a whole number ≥ 1"),
    "half": ({"batch": 2.5}, "`batch` is 2.5; expected a whole number ≥ 1"),
    "momentum": ({"momentum": 1.0}, r"`momentum` is 1.0"),
    "nesterov": ({"nesterov": True}, "`nesterov` is True with `momentum` 0"),
    "decay": ({"weight_decay": -1}, "`weight_decay` is -1; expected a finite number ≥ 0"),
    "sampling": ({"sampling": "cyclic"}, "`sampling` is 'cyclic'; expected 'epochs' or 'independent'"),
    "schedule": ({"schedule": 0.1}, "`schedule` is 0.1; expected a function of the step"),
}


@pytest.mark.parametrize("case", SGD_LINES)
def test_wrong_arguments_of_sgd_are_one_line(case):
    change, said = SGD_LINES[case]
    with pytest.raises(ValueError, match=said) as caught:
        sgd(NET, DATA, lr=0.1, steps=1, **change)
    assert "\n" not in str(caught.value)


def test_a_step_that_cannot_fit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 10_000)
    with pytest.raises(ValueError, match=r"a step on 12 rows needs .* free; take a smaller width") as caught:
        gradient_descent(TwoLayer(200), DATA, lr=0.1, steps=1)
    assert "\n" not in str(caught.value)
    sgd(NET, DATA, lr=0.1, steps=1, batch=2, measures=())  # a small batch fits


def test_memory_that_runs_out_is_one_line(monkeypatch):
    def exhausted(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.\nmore lines")

    monkeypatch.setattr(loop, "_measure", exhausted)
    with pytest.raises(ValueError, match="the memory of the cpu is not enough; take a smaller width") as caught:
        gradient_descent(NET, DATA, lr=0.1, steps=1)
    assert "\n" not in str(caught.value)


def test_a_loss_that_starts_as_nan_says_so():
    run = gradient_descent(lambda w, x: jnp.log(x[:, 0] * 0 - 1) * w, DATA, lr=0.1, steps=5, params=1.0, measures=())
    assert run.stopped == Stop("not finite", 0)
    assert "the first weights, the network or the objective give that" in str(run.stopped)
    assert run.steps.tolist() == [0]


def test_test_rows_go_along():
    data = DATA.replace(test=in_order(NEW, np.sign(NEW[:, 0])))
    run = gradient_descent(NET, data, lr=0.1, steps=1, measures=())
    assert set(run.records) == {"loss", "accuracy", "test_loss", "test_accuracy"}


def test_an_algorithm_by_hand():
    found = train(NET, DATA, GradientDescent(0.1), 3, measures=())
    np.testing.assert_array_equal(
        found.params.trained["W"], gradient_descent(NET, DATA, lr=0.1, steps=3, measures=()).params.trained["W"]
    )


def test_descriptions():
    assert str(spec_of(TwoLayer(8, kappa=1.0))) == "TwoLayer(width=8)"
    assert str(spec_of(TwoLayer(8, kappa=0.01))) == "TwoLayer(width=8, kappa=0.01)"
    assert str(spec_of(Given(mlp, mlp_params()))) == "Given(function=mlp)"
    assert str(spec_of(GradientDescent(0.5, loss="mean"))) == "GradientDescent(lr=0.5, loss=mean)"


FRESH = """
import sys, warnings
import numpy as np
import overparam as op
op.theory, op.analysis, op.data
print("jax" in sys.modules, "optax" in sys.modules)
op.training.gradient_descent, op.networks.TwoLayer
print("jax" in sys.modules)
import jax, jax.numpy as jnp
def settings():
    config = jax.config
    return (
        config.jax_enable_x64, config.jax_default_device, config.jax_default_matmul_precision, np.geterr(),
        list(map(str, warnings.filters)), np.random.get_state()[1].tobytes(), str(jnp.ones(1).dtype),
    )
before = settings()
X = np.random.default_rng(0).standard_normal((6, 3))
data = (X, [1, -1, 1, 1, -1, -1])
print(before[0], before[1], before[2])
op.training.gradient_descent(op.networks.TwoLayer(4), data, lr=0.1, steps=1, device="cpu", measures=("kernel",))
op.training.sgd(op.networks.TwoLayer(4), data, lr=0.1, steps=1, batch=3, dtype="float32", measures=())
print(settings() == before)
for change in ({"progress": lambda *a: 1 / 0}, {"network": lambda w, x: x, "params": np.ones(3)}):
    try:
        op.training.gradient_descent(**{"network": op.networks.TwoLayer(4), "data": data, "lr": 0.1, "steps": 1, **change})
    except (ZeroDivisionError, ValueError) as error:
        print(type(error).__name__)
print(settings() == before)
"""


def test_nothing_global_changes_and_importing_the_package_does_not_import_jax():
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=120)
    wanted = "False False True False None None True ZeroDivisionError ValueError True"
    assert done.stdout.split() == wanted.split(), done.stderr
