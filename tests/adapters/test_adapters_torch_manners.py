"""What `from_torch` leaves alone, and what it refuses with one line."""

import random
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_cases import build, one_thread  # noqa: E402, F401

from overparam.adapters.torch_module import from_torch  # noqa: E402

X = np.random.default_rng(0).standard_normal((4, 5))


def seen(module):
    """All of a module and of torch's settings that a call might change."""
    layers = list(module.modules())
    return {
        "modes": [layer.training for layer in layers],
        "flags": [weight.requires_grad for weight in module.parameters()],
        "gradients": [weight.grad for weight in module.parameters()],
        "identities": [id(weight) for weight in (*module.parameters(), *module.buffers())],
        "values": [weight.detach().clone().tolist() for weight in (*module.parameters(), *module.buffers())],
        "hooks": [
            len(layer._forward_hooks) + len(layer._forward_pre_hooks) + len(layer._backward_hooks) for layer in layers
        ],
        "attributes": [sorted(vars(layer)) for layer in layers],
        "embeddings": [getattr(layer, "scale_grad_by_freq", None) for layer in layers],
        "random": torch.get_rng_state().tolist(),
        "other random": (random.getstate(), np.random.get_state()[1].tolist()),  # noqa: NPY002
        "settings": (
            torch.get_default_dtype(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
        ),
        "attention": (torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()),
    }


def mixed_module():
    module, x = build("residual")
    module.train()
    module[1].norm1.eval()  # frozen batch norm, as in fine-tuning
    module[0].bias.requires_grad_(False)
    module[1].register_forward_hook(lambda *_: None)
    return module, x


@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode], ids=lambda c: c.__name__)
def test_nothing_of_the_users_changes(context):
    module, x = mixed_module()
    with context():
        before = seen(module)
        network = from_torch(module, x)
        assert np.isfinite(network.contraction(None, x, None, "full")).all()
        network.product(None, x, None, np.ones((3, 3)))
        network.apply(None, x)
        network.init()
        assert seen(module) == before


@pytest.mark.parametrize("stage", ["from_torch", "contraction", "product", "apply", "interrupt"])
def test_nothing_changes_when_the_module_fails(stage):
    class Breaking(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.Linear(4, 2)), 0
            self.error = KeyboardInterrupt if stage == "interrupt" else RuntimeError
            self.broken = stage == "from_torch"

        def forward(self, x):
            out = self.inner(x) + torch.randn(()) * 0
            if self.broken:
                raise self.error("broken\non purpose")
            return out

    module = Breaking()
    module.inner[2].eval()
    network = None if stage == "from_torch" else from_torch(module, X)
    module.broken = True
    before = seen(module)
    calls = {
        "from_torch": lambda: from_torch(module, X),
        "contraction": lambda: network.contraction(None, X, None, "full"),
        "interrupt": lambda: network.contraction(None, X, None, "full"),
        "product": lambda: network.product(None, X, None, np.ones((4, 2))),
        "apply": lambda: network.apply(None, X),
    }
    with pytest.raises(KeyboardInterrupt if stage == "interrupt" else ValueError, match="broken") as raised:
        calls[stage]()
    assert stage == "interrupt" or "\n" not in str(raised.value)
    assert seen(module) == before


def test_an_embedding_that_shrinks_its_weights_does_not_shrink_the_users():
    module = nn.Sequential(nn.Embedding(6, 3, max_norm=0.1), nn.Flatten(), nn.Linear(6, 2))
    tokens = np.array([[0, 1], [2, 3], [4, 5]])
    before = module[0].weight.detach().clone()
    network = from_torch(module, tokens)
    network.contraction(None, tokens, None, "trace")
    assert torch.equal(module[0].weight, before)
    assert before.norm(dim=1).min() > 0.1


class Gives(nn.Module):
    """A linear layer and then what the function makes of it."""

    def __init__(self, function):
        super().__init__()
        self.line, self.function = nn.Linear(5, 3), function

    def forward(self, x):
        return self.function(self.line(x))


class OfInputs(Gives):
    def forward(self, x):
        return self.function(x)


REFUSED = {
    "not a module": (lambda: from_torch(np.sin, X), "`module` is a ufunc"),
    "a tuple out": (lambda: from_torch(Gives(lambda h: (h, h)), X), "gives a tuple"),
    "three axes out": (lambda: from_torch(Gives(lambda h: h[:, :, None]), X), r"into \(4, 3, 1\)"),
    "one number out": (lambda: from_torch(Gives(lambda h: h.sum()), X), r"into \(\)"),
    "samples lost": (lambda: from_torch(Gives(lambda h: h[:1]), X), r"into \(1, 3\)"),
    "integers out": (lambda: from_torch(Gives(lambda h: h.argmax(1)), X), "gives torch.int64"),
    "no trained weights": (lambda: from_torch(nn.Linear(5, 3).requires_grad_(False), X), "no trained weights"),
    "no weights": (lambda: from_torch(nn.ReLU(), X), "no trained weights"),
    "weights not used": (
        lambda: from_torch(OfInputs(lambda x: x), X).contraction(None, X, None, "full"),
        "depend on no",
    ),
    "NaN outputs": (lambda: from_torch(Gives(lambda h: h / 0 * 0), X), "NaN or infinite outputs"),
    "example of other width": (lambda: from_torch(nn.Linear(4, 3), X), r"fails on a batch of shape \(4, 5\)"),
    "example of no rows": (lambda: from_torch(nn.Linear(5, 3), X[:0]), r"`example` has shape \(0, 5\)"),
    "example of text": (lambda: from_torch(nn.Linear(5, 3), [["a"] * 5]), "text where a number belongs"),
    "two inputs": (lambda: from_torch(nn.Bilinear(5, 5, 2), (X, X)), "`example` is a tuple"),
    "lazy": (lambda: from_torch(nn.LazyLinear(3), X), "has no shape yet"),
    "no numbers": (lambda: from_torch(nn.Linear(5, 3, device="meta"), X), "'weight' is on the device 'meta'"),
    "complex": (lambda: from_torch(nn.Linear(5, 3, dtype=torch.complex64), X), "complex64"),
    "dtype": (lambda: from_torch(nn.Linear(5, 3), X, dtype="int8"), "`dtype` is 'int8'"),
    "memory": (lambda: from_torch(nn.Linear(5, 3), X, memory="lots"), "`memory` is 'lots'"),
    "batch statistics": (
        lambda: from_torch(nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3, track_running_stats=False)), X).contraction(
            None, X, None, "full"
        ),
        "Expected more than 1 value per channel",
    ),
    "written over": (
        lambda: from_torch(Gives(lambda h: torch.exp(h).mul_(2)), X).contraction(None, X, None, "full"),
        "PyTorch cannot differentiate",
    ),
    "mixing samples": (
        lambda: from_torch(Gives(lambda h: h - h.mean(0)), X).contraction(None, X, None, "full"),
        "change with the rest of its batch",
    ),
    "randomness": (
        lambda: from_torch(Gives(lambda h: h + torch.randn(3)), X).product(None, X, None, np.ones((4, 3))),
        "from call to call",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_modules_and_examples_that_are_refused(name):
    make, words = REFUSED[name]
    with pytest.raises(ValueError, match=words) as raised:
        make()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (np.where(np.eye(4, 5) > 0, np.nan, X), "`X` has 4 NaN"),
        (np.where(np.eye(4, 5) > 0, np.inf, X), "`X` has 4 infinite"),
        (X[0], r"`X` has shape \(5,\)"),
        (X[:0], r"`X` has shape \(0, 5\)"),
        (X[:, :3], r"fails on a batch of shape \(2, 3\)"),
        (np.ones((4, 5), dtype=np.uint8), "`X` holds uint8"),
        (X * 1e160, "4 samples out of the range of float32"),
        (X * 1e-20, "4 samples out of the range of float32"),
        (X + 1j, "complex"),
    ],
)
def test_inputs_that_are_refused(inputs, words):
    network = from_torch(nn.Linear(5, 3), X)
    for call in (
        lambda: network.contraction(None, inputs, None, "full"),
        lambda: network.product(None, inputs, None, np.ones((4, 3))),
    ):
        with pytest.raises(ValueError, match=words) as raised:
            call()
        assert "\n" not in str(raised.value)


def test_small_inputs_are_right_in_double_precision_and_large_ones_refused():
    """f = ⟨w, x⟩ has Θ = ⟨x, z⟩ whatever the size."""
    network = from_torch(nn.Linear(5, 1, bias=False), X, dtype="float64")
    for size in (1e-20, 1e-100, 1e100):
        found = network.contraction(None, X * size, None, "trace")
        assert np.allclose(found / size / size, X @ X.T, rtol=1e-13)
    with pytest.raises(ValueError, match="out of the range of float64"):
        network.contraction(None, X * 1e160, None, "trace")
    assert not network.contraction(None, X * 0, None, "trace").any()


@pytest.mark.parametrize("outputs", [3, -1, True, "diagonal", None])
def test_outputs_that_are_refused(outputs):
    with pytest.raises(ValueError, match=r"^`outputs` is .*; expected 'full', 'trace' or an output from 0 to 2$"):
        from_torch(nn.Linear(5, 3), X).contraction(None, X, None, outputs)


def test_weights_that_are_refused():
    network = from_torch(nn.Linear(5, 3), X)
    good = network.init()
    for change, words in (
        ({"weight": good.trained["weight"]}, "lacks 'bias'"),
        ({**good.trained, "weight": np.ones((2, 5))}, r"'weight' of shape \(2, 5\); the module has \(3, 5\)"),
        ({**good.trained, "other": np.ones(2)}, "no such weight"),
        ({**good.trained, "bias": np.array([1, np.nan, 2])}, "1 NaN"),
    ):
        with pytest.raises(ValueError, match=words):
            network.contraction(type(good)(change), X, None, "full")
    with pytest.raises(ValueError, match="`params` is a dict"):
        network.contraction(good.trained, X, None, "full")


def test_floats_for_tokens_are_refused():
    module, tokens = build("tokens")
    with pytest.raises(ValueError, match="holds float64 where `example` held integers"):
        from_torch(module, tokens).contraction(None, tokens.double(), None, "full")
    with pytest.raises(ValueError, match="index out of range"):
        from_torch(module, tokens).contraction(None, tokens + 100, None, "full")


def test_without_torch_one_line_names_the_extra():
    code = "import sys; sys.modules['torch'] = None\nfrom overparam.adapters.torch_module import from_torch\nfrom_torch(1, 2)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1].endswith("pip install 'overparam[torch]'")
