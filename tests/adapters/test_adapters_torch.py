"""The tangent kernel of PyTorch modules of every kind against torch.func's whole Jacobian, closed forms, and each other."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_cases import CASES, Routed, build, one_thread, whole_kernel  # noqa: E402, F401

from overparam.adapters import torch_contraction, torch_tangents  # noqa: E402
from overparam.adapters.torch_module import from_torch  # noqa: E402
from overparam.adapters.torch_state import undisturbed  # noqa: E402
from overparam.frame import fingerprint  # noqa: E402

GENERAL = {  # weights without a closed form; all others of all cases have one
    "tied": {"first.weight", "last.weight"},
    "bare": {"W", "scale"},
    "folded positions": {"inner.weight", "inner.bias"},
    "positions first": {"inner.weight", "inner.bias", "outer.weight", "outer.bias"},
    "recurrent": {"cells.weight_ih_l0", "cells.weight_hh_l0", "cells.bias_ih_l0", "cells.bias_hh_l0"},
    "transposed": {"0.weight", "0.bias", "1.weight"},
    "weight norm": {"0.bias", "0.parametrizations.weight.original0", "0.parametrizations.weight.original1"},
    "tokens": {"mix.in_proj_weight", "mix.in_proj_bias", "mix.out_proj.weight", "mix.out_proj.bias"},
    "tokens, padding": {"mix.in_proj_weight", "mix.in_proj_bias", "mix.out_proj.weight", "mix.out_proj.bias"},
    "tied tokens": {
        "embed.weight",
        "mix.in_proj_weight",
        "mix.in_proj_bias",
        "mix.out_proj.weight",
        "mix.out_proj.bias",
    },
    "transformer": {
        f"0.self_attn.{name}" for name in ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
    },
}


def close(found, expected, digits=1e-12):
    assert found.shape == expected.shape
    assert found.dtype == np.float64
    assert np.abs(found - expected).max() <= digits * np.abs(expected).max()


@pytest.mark.parametrize("name", CASES)
def test_kernel_is_that_of_the_whole_jacobian(name):
    module, x = build(name, extra=2)
    whole = whole_kernel(module, x)
    network, x, z = from_torch(module, x[:1]), x[:3], x[2:]
    full, k = whole[:3, 2:], whole.shape[-1]
    assert network.output_count == k
    close(network.contraction(None, x, z, "full"), full)
    alone = network.contraction(None, x, None, "full")
    close(alone, whole[:3, :3])
    assert np.array_equal(alone, alone.transpose(1, 0, 3, 2))
    own = np.einsum("iiaa->ia", whole)[:3]
    close(network.diagonal(None, x, "trace"), own.mean(1))
    close(network.diagonal(None, x, k - 1), own[:, -1])
    close(network.contraction(None, x, z, "trace"), np.trace(full, axis1=2, axis2=3) / k)
    close(network.contraction(None, x, z, k - 1), full[:, :, -1, -1])
    V = np.random.default_rng(0).standard_normal((len(z), k))
    shape = (len(x), *network.outputs)
    close(network.product(None, x, z, V), np.einsum("ijab,jb->ia", full, V).reshape(shape))


@pytest.mark.parametrize("name", CASES)
def test_known_layers_are_done_in_closed_form(name):
    module, x = build(name)
    network = from_torch(module, x)
    model = network._model(None)
    with undisturbed(module):
        plan = torch_tangents.Tangents(model, network._batch(model, x, "X"))
    assert plan.general == GENERAL.get(name, set())
    used = {weight for weight in model.leaves if weight != "unused"}
    assert plan.structured == used - plan.general


@pytest.mark.parametrize("name", ["dense", "conv2d strided", "conv2d groups", "residual", "tied"])
def test_blocks_of_one_sample_give_the_same(name):
    module, x = build(name)
    small = from_torch(module, x, memory=1)
    for outputs in ("full", "trace"):
        close(small.contraction(None, x, None, outputs), from_torch(module, x).contraction(None, x, None, outputs))
    close(small.contraction(None, x, x[1:], "full"), whole_kernel(module, x, x[1:]))
    close(small.diagonal(None, x, "trace"), from_torch(module, x).contraction(None, x, None, "trace").diagonal())
    V = np.ones((len(x), small.output_count))
    close(small.product(None, x, None, V), from_torch(module, x).product(None, x, None, V))


@pytest.mark.parametrize("cost", [-(10**9), 10**9], ids=["by positions", "by gradients"])
@pytest.mark.parametrize(
    "name", ["sequences", "conv1d same", "conv2d circular", "conv3d", "shared convolution", "tokens, padding"]
)
def test_both_ways_to_contract_a_layer(name, cost, monkeypatch):
    monkeypatch.setattr(torch_contraction, "PASS", cost)
    module, x = build(name)
    full = whole_kernel(module, x)
    network = from_torch(module, x)
    close(network.contraction(None, x, None, "full"), full)
    close(network.contraction(None, x, None, "trace"), np.trace(full, axis1=2, axis2=3) / full.shape[-1])


def test_more_rows_than_a_panel_holds(monkeypatch):
    monkeypatch.setattr(torch_contraction, "PANEL_ROWS", 8)
    module, x = build("dense", extra=10)
    network = from_torch(module, x)
    for outputs in ("full", "trace", 1):
        alone = network.contraction(None, x, None, outputs)
        close(alone, network.contraction(None, x, x, outputs))
    close(network.contraction(None, x, None, "full"), whole_kernel(module, x))


def test_two_layers_against_the_formula():
    """f = Σ_r a_r relu(⟨w_r, x⟩)/√m, a fixed: Θ(x, z) = ⟨x, z⟩ #{r: both on}/m, counted by NumPy."""
    rng = np.random.default_rng(1)
    X, W, m = rng.standard_normal((9, 4)), rng.standard_normal((50, 4)), 50
    module = nn.Sequential(nn.Linear(4, m, bias=False), nn.ReLU(), nn.Linear(m, 1, bias=False)).double()
    module[0].weight.data = torch.tensor(W)
    module[2].weight.data = torch.tensor(np.where(rng.random((1, m)) < 0.5, -1.0, 1.0) / m**0.5)
    module[2].weight.requires_grad_(False)
    on = (X @ W.T > 0).astype(float)
    close(from_torch(module, X).contraction(None, X, None, "trace"), (X @ X.T) * (on @ on.T) / m)


def test_a_module_that_torch_func_cannot_follow():
    module = Routed().double()
    x = torch.tensor([[1.0, 2, 0, 0, 1], [-1, 0, 1, 0, 0], [2, 1, 1, 0, 0]], dtype=torch.float64)
    a, b = module.a.detach().numpy(), module.b.detach().numpy()
    X = x.numpy()
    slopes = 1 - np.tanh(np.where(X[:, 0] > 0, X @ a, X @ b)) ** 2
    same = np.equal.outer(X[:, 0] > 0, X[:, 0] > 0)
    network = from_torch(module, x)
    close(network.contraction(None, x, None, "trace"), np.outer(slopes, slopes) * (X @ X.T) * same)
    with pytest.raises(ValueError, match=r"^`V` has shape"):
        network.product(None, x, None, np.ones((3, 2)))
    close(network.product(None, x, None, np.ones(3)), (np.outer(slopes, slopes) * (X @ X.T) * same).sum(1))


@pytest.mark.parametrize("name", ["dense", "residual", "transformer"])
def test_single_precision_keeps_five_digits_and_double_can_be_asked_for(name):
    module, x = build(name)
    exact = whole_kernel(module, x)
    single = module.float()
    x = x.float()
    found = from_torch(single, x).contraction(None, x, None, "full")
    sizes = np.sqrt(np.einsum("iiaa->ia", exact))
    assert np.abs(found - exact).max() > 0
    assert (np.abs(found - exact) <= 1e-5 * sizes[:, None, :, None] * sizes[None, :, None, :]).all()
    exact = whole_kernel(build_like(single), x.double())
    close(from_torch(single, x, dtype="float64").contraction(None, x, None, "full"), exact)
    assert next(single.parameters()).dtype == torch.float32


def build_like(module):
    import copy

    return copy.deepcopy(module).double()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_contracted_in_single_and_states_its_rounding(dtype):
    module, x = build("dense")
    module = module.to(dtype)
    exact = np.trace(whole_kernel(build_like(module), x), axis1=2, axis2=3) / 3
    network = from_torch(module, x)
    found = network.contraction(None, x, None, "trace")
    error = np.abs(found - exact) / np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
    assert 2e-5 < error.max() <= 2 * network.entry_rounding == 2e-2
    assert from_torch(module, x, dtype="float32").entry_rounding == 1e-5
    assert network.init().trained["0.weight"].dtype in (np.float32, np.float16)


@pytest.mark.parametrize("name", ["dense", "residual", "tied"])
def test_the_kernel_is_positive_within_rounding(name):
    module, x = build(name, extra=3)
    full = from_torch(module, x).contraction(None, x, None, "full")
    n, k = len(full), full.shape[-1]
    values = np.linalg.eigvalsh(full.transpose(0, 2, 1, 3).reshape(n * k, n * k))
    assert values[0] >= -1e-13 * values[-1]


def test_outputs_and_weights_are_the_modules():
    module, x = build("residual")
    network = from_torch(module, x)
    params = network.init()
    assert set(params.trained) == {name for name, _ in module.named_parameters()}
    assert set(params.state) == {name for name, _ in module.named_buffers()}
    before, kernel = network.apply(None, x), network.contraction(None, x, None, "trace")
    assert np.allclose(before, module.eval()(x).detach().numpy(), rtol=1e-13)
    with torch.no_grad():
        for weight in module.parameters():
            weight *= 1.5
        module[1].norm1.running_mean += 1
    assert not np.allclose(network.apply(None, x), before, rtol=1e-2)
    assert np.allclose(network.apply(params, x), before, rtol=1e-13)
    close(network.contraction(params, x, None, "trace"), kernel)
    close(network.contraction(None, x, None, "full"), whole_kernel(module, x))
    assert from_torch(nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), np.ones((2, 3))).apply(
        None, np.ones((5, 3))
    ).shape == (5,)


def test_the_trace_in_several_sweeps_of_outputs():
    module, x = build("residual")
    full = whole_kernel(module, x)
    k = full.shape[-1]
    network = from_torch(module, x)
    model = network._model(None)
    with undisturbed(module):
        plan = torch_tangents.Tangents(model, x)
    for count in (1, 2):  # room for all samples and so many outputs at once
        room = len(x) * plan.bytes_a_sample(count)
        small = from_torch(module, x, memory=room)
        with undisturbed(module):
            assert torch_tangents.Tangents(small._model(None), x).outputs_at_once(x, None) == count
        close(small.contraction(None, x, None, "trace"), np.trace(full, axis1=2, axis2=3) / k)


@pytest.mark.slow  # torch.compile takes seconds to import
def test_a_compiled_module_is_the_module():
    module, x = build("dense")
    compiled = from_torch(torch.compile(module), x)
    close(compiled.contraction(None, x, None, "full"), whole_kernel(module, x))


def test_the_kernel_of_the_house_takes_it(monkeypatch):
    """It asks for the diagonal where it needs it alone, and makes no k × k pairs to learn k."""
    from overparam.engines import gram
    from overparam.kernels.empirical import Empirical

    module, x = build("residual")
    full = whole_kernel(module, x)
    kernel, X = Empirical(from_torch(module, x)), x.numpy()
    trace = np.trace(full, axis1=2, axis2=3) / full.shape[-1]
    close(kernel.full(X), full)
    close(kernel.diagonal(X), trace.diagonal())
    monkeypatch.setattr(torch_tangents, "diagonal", None)
    close(kernel(X), trace)
    close(gram(kernel, X).dense(), trace)
    monkeypatch.setattr(torch_tangents, "contraction", None)
    close(kernel.product(X, np.ones((3, 3))), full.sum((1, 3)))
    close(kernel.product(X, np.ones(3)), trace.sum(1))


def test_the_fingerprint_is_that_of_the_weights_of_the_moment():
    module, x = build("residual")
    network = from_torch(module, x)
    first = fingerprint(network)
    assert fingerprint(from_torch(build("residual")[0], x)) == first
    seen = {first, fingerprint(from_torch(module, x, dtype="float32"))}
    for change in (
        lambda: module[5].bias.data.add_(1e-15),
        lambda: module[1].norm1.running_mean.add_(1),
        lambda: module[0].bias.requires_grad_(False),
    ):
        change()
        seen.add(fingerprint(network))
    assert len(seen) == 5


def test_tokens_counted_by_an_embedding_do_not_change_the_kernel():
    """f = ⟨w, a_s + a_t⟩ of two tokens: Θ = |w|² #{pairs of equal tokens} + ⟨h, h̃⟩, h the two rows side by side."""
    module = nn.Sequential(nn.Embedding(4, 2, scale_grad_by_freq=True), nn.Flatten(), nn.Linear(4, 1, bias=False))
    module = module.double()
    module[2].weight.data = torch.tensor([[1.0, 2, 1, 2]], dtype=torch.float64)
    tokens = np.array([[1, 1], [1, 3], [3, 2]])
    table = module[0].weight.detach().numpy()
    h = table[tokens].reshape(3, 4)
    equal = (tokens[:, None, :, None] == tokens[None, :, None, :]).sum((2, 3))
    network = from_torch(module, tokens)
    close(network.contraction(None, tokens, None, "trace"), 5.0 * equal + h @ h.T)
    close(network.product(None, tokens, None, np.ones(3))[:, 0], (5.0 * equal + h @ h.T).sum(1))
    assert module[0].scale_grad_by_freq


def test_one_sample_and_numbers_of_any_kind():
    module, x = build("dense")
    network = from_torch(module, x)
    close(network.contraction(None, x[:1], None, "full"), whole_kernel(module, x[:1]))
    close(
        network.contraction(None, x.tolist(), None, "trace"),
        network.contraction(None, x.numpy()[::-1][::-1], None, "trace"),
    )
    frozen = x.numpy().copy()
    frozen.flags.writeable = False
    close(network.contraction(None, frozen, None, "trace"), network.contraction(None, x, None, "trace"))


@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # the first backward pass of a process
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", ["dense", "residual", "conv2d groups", "tied tokens"])
def test_on_a_gpu_the_numbers_are_the_same(name):
    module, x = build(name)
    exact = whole_kernel(module, x)
    network = from_torch(module.cuda(), x)
    close(network.contraction(None, x, None, "full"), exact)
    close(network.product(None, x, None, np.ones((3, exact.shape[-1]))), exact.sum((1, 3)))
    assert next(module.parameters()).is_cuda


@pytest.mark.slow
def test_memory_stays_far_below_a_jacobian_of_all_weights():
    """Four million weights, 20 samples, 10 outputs: 3.2 GB of Jacobian; cotangents and small pieces here."""
    import subprocess
    import sys

    code = """
import resource, numpy as np, torch
torch.set_num_threads(1)
from torch import nn
from overparam.adapters.torch_module import from_torch
module = nn.Sequential(nn.Linear(9, 2000), nn.ReLU(), nn.Linear(2000, 2000), nn.ReLU(), nn.Linear(2000, 10))
X = np.random.default_rng(0).standard_normal((20, 9))
network = from_torch(module, X)
network.contraction(None, X[:2], None, "full")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
network.contraction(None, X, None, "full")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 100, done.stdout
