"""Small PyTorch modules of every kind, and the tangent kernel of each from one whole Jacobian of torch.func."""

import warnings

import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev
from torch.nn.attention import SDPBackend, sdpa_kernel


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On a busy machine the threads of tiny products wait for each other fifty times longer than they work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def whole_kernel(module, x, z=None):
    """(n, p, k, k) from the Jacobian of all trained weights, sample by sample, in evaluation mode."""
    modes = [layer.training for layer in module.modules()]
    module.eval()
    trained = {name: weight.detach() for name, weight in module.named_parameters() if weight.requires_grad}
    rest = {name: weight.detach() for name, weight in module.named_parameters() if not weight.requires_grad}
    rest.update({name: buffer.clone() for name, buffer in module.named_buffers()})

    def lines(samples):
        rows = []
        for sample in samples:
            found = jacrev(lambda weights, s=sample: functional_call(module, {**rest, **weights}, (s[None],))[0])(
                trained
            )
            rows.append(
                torch.cat(
                    [part.reshape(max(1, part.numel() // trained[name].numel()), -1) for name, part in found.items()], 1
                )
            )
        return torch.stack(rows)

    with sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        left = lines(x)
        right = left if z is None else lines(z)
    for layer, mode in zip(module.modules(), modes, strict=True):
        layer.training = mode
    return torch.einsum("iac,jbc->ijab", left, right).detach().numpy()


class Tied(nn.Module):
    """A layer used twice, a weight two layers share, and a weight used by a layer and by hand."""

    def __init__(self):
        super().__init__()
        self.first, self.twice, self.last = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.other = nn.Linear(6, 6, bias=False)
        self.other.weight = self.twice.weight

    def forward(self, x):
        h = torch.tanh(self.first(x))
        h = torch.tanh(self.twice(torch.tanh(self.twice(h))))
        h = self.other(h)
        return self.last(h) + x @ self.first.weight.T @ self.last.weight.T


class SharedConvolution(nn.Module):
    """One weight in two convolutions of different stride and padding."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(2, 2, 3, padding=1)
        self.b = nn.Conv2d(2, 2, 3, stride=2, bias=False)
        self.b.weight = self.a.weight
        self.head = nn.Linear(2, 2)

    def forward(self, x):
        return self.head(self.b(torch.tanh(self.a(x))).mean((2, 3)))


class Bare(nn.Module):
    """Parameters used by hand, one of them not used at all, and one that is not trained."""

    def __init__(self):
        super().__init__()
        self.W = nn.Parameter(torch.randn(4, 5))
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.unused = nn.Parameter(torch.randn(3))
        self.fixed = nn.Parameter(torch.randn(2, 4), requires_grad=False)

    def forward(self, x):
        return self.scale * torch.relu(x @ self.W.T) @ self.fixed.T


class Tokens(nn.Module):
    """Embeddings of integers, attention, layer norm, and a head tied to the embedding."""

    def __init__(self, tied, padding=None):
        super().__init__()
        self.embed = nn.Embedding(7, 4, padding_idx=padding)
        self.mix = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 7, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens):
        h = self.embed(tokens)
        h = self.norm(h + self.mix(h, h, h, need_weights=False)[0])
        return self.head(h).mean(1)


class Block(nn.Module):
    """A residual block with batch norm and ReLUs in place."""

    def __init__(self, width):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.relu(self.norm1(self.conv1(x)))
        h = self.norm2(self.conv2(h))
        h += x
        return self.relu(h)


class FoldedPositions(nn.Module):
    """Positions folded into the batch axis: the layer's first axis is not the samples'."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        n, t, d = x.shape
        h = torch.tanh(self.inner(x.reshape(n * t, d))).reshape(n, t, -1)
        return self.outer(h).sum(1)


class PositionsFirst(nn.Module):
    """Positions on the first axis, as recurrent networks have them; there are as many as samples in the tests."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x.transpose(0, 1)))).sum(0)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


class Routed(nn.Module):
    """Which layer is called hangs on a number read from the tensor: torch.func cannot follow it."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(5))

    def forward(self, x):
        return torch.stack([torch.tanh(row @ (self.a if float(row[0]) > 0 else self.b)) for row in x])


def convolution(dims, **options):
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
    return nn.Sequential(kind(4, 6, 3, **options), nn.Tanh(), nn.Flatten(), nn.LazyLinear(2))


def _cases():
    x = lambda *shape: (3, *shape)  # noqa: E731
    yield (
        "dense",
        lambda: nn.Sequential(nn.Linear(5, 7), nn.ReLU(inplace=True), nn.Linear(7, 6), nn.GELU(), nn.Linear(6, 3)),
        x(5),
    )
    yield "one output", lambda: nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1), nn.Flatten(0)), x(5)
    yield "no bias", lambda: nn.Linear(5, 2, bias=False), x(5)
    yield (
        "sequences",
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Flatten(), nn.Linear(8, 3)),
        x(4, 3),
    )
    for name, dims, options in (
        ("conv1d", 1, {"padding": 1, "stride": 2}),
        ("conv1d same", 1, {"padding": "same", "dilation": 2}),
        ("conv2d", 2, {}),
        ("conv2d strided", 2, {"stride": (2, 1), "padding": (1, 2), "bias": False}),
        ("conv2d groups", 2, {"groups": 2, "padding": 1}),
        ("conv2d dilated", 2, {"dilation": 2, "padding": "same", "padding_mode": "reflect"}),
        ("conv2d circular", 2, {"padding": 1, "padding_mode": "circular"}),
        ("conv2d valid", 2, {"padding": "valid", "stride": 2}),
        ("conv2d replicate", 2, {"padding": (2, 1), "padding_mode": "replicate"}),
        ("conv3d", 3, {"padding": 1, "stride": 2}),
    ):
        yield name, (lambda d=dims, o=options: convolution(d, **o)), x(4, *(6, 5, 4)[:dims])
    yield (
        "depthwise",
        lambda: nn.Sequential(
            nn.Conv2d(4, 8, 3, groups=4), nn.ReLU(), nn.Conv2d(8, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        ),
        x(4, 5, 5),
    )
    yield (
        "norms",
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3),
            nn.GroupNorm(2, 4),
            nn.ReLU(),
            nn.LayerNorm([3, 3]),
            nn.Flatten(),
            nn.BatchNorm1d(36),
            nn.Linear(36, 2),
        ),
        x(2, 5, 5),
    )
    yield (
        "residual",
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3), Block(4), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
        ),
        x(2, 6, 6),
    )
    yield "tied", Tied, x(5)
    yield "shared convolution", SharedConvolution, x(2, 6, 6)
    yield "bare", Bare, x(5)
    yield "folded positions", FoldedPositions, x(4, 3)
    yield "positions first", PositionsFirst, x(3, 3)
    yield "recurrent", Recurrent, x(4, 3)
    yield (
        "transposed",
        lambda: nn.Sequential(nn.ConvTranspose1d(2, 3, 3), nn.PReLU(), nn.Flatten(), nn.Linear(18, 2)),
        x(2, 4),
    )
    yield (
        "weight norm",
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)), nn.Tanh(), nn.Linear(4, 2)),
        x(5),
    )
    yield "tokens", lambda: Tokens(False), x(6)
    yield "tokens, padding", lambda: Tokens(False, 0), x(6)
    yield "tied tokens", lambda: Tokens(True), x(6)
    yield (
        "transformer",
        lambda: nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), nn.Flatten(), nn.Linear(12, 2)),
        x(3, 4),
    )


CASES = {name: (make, shape) for name, make, shape in _cases()}


def build(name, seed=0, extra=0):
    """The module in float64 with fresh weights and running averages away from 0 and 1, and a batch of inputs."""
    make, shape = CASES[name]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = make().double()
        size = (shape[0] + extra, *shape[1:])
        if "tokens" in name:
            x = torch.randint(0, 7, size)
        else:
            x = torch.randn(size, dtype=torch.float64)
        module(x[:2])  # lazy layers take their shapes
        for layer in module.modules():
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
                layer.running_mean.normal_()
                layer.running_var.uniform_(0.5, 2)
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm | nn.GroupNorm):
                layer.weight.data.normal_()
    return module, x
