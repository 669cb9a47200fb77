"""VGG and residual networks for images: their sizes, and a copy in PyTorch with the same weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from overparam import training
from overparam.core.network import Params, Unseen
from overparam.networks import Frozen, ImageResNet, Vgg

torch = pytest.importorskip("torch")
nn = torch.nn

IMAGE = (8, 8, 2)
VGG = Vgg(3, stages=((4, 2), (6, 1)), image=IMAGE)
TINY = Vgg(3, stages=((4, 1),), image=IMAGE)
PADDED = ImageResNet(8, 3, (4, 6, 8), IMAGE)
PROJECTED = ImageResNet(8, 3, (4, 4, 8), IMAGE, shortcut="projected")
NETWORKS = pytest.mark.parametrize(
    "net",
    [
        pytest.param(VGG, id="vgg"),
        pytest.param(PADDED, id="padded"),
        pytest.param(PROJECTED, id="projected", marks=pytest.mark.slow),
    ],
)


@pytest.mark.parametrize(
    ("net", "count"),
    [  # counted for these architectures elsewhere: 20,040,522 with the 5,504 biases that batch norm takes away
        (Vgg(), 20_040_522 - 5_504),
        (ImageResNet(32), 464_154),
        (ImageResNet(110), 1_727_962),
        (ImageResNet(20), 269_722),
    ],
)
def test_the_numbers_of_weights_are_the_known_ones(net, count):
    params = jax.eval_shape(lambda: net.init(0, 3072))
    assert sum(leaf.size for leaf in jax.tree.leaves(params.trained)) == count
    trace = jax.eval_shape(net.trace, params, jax.ShapeDtypeStruct((2, 3072), jnp.float32))
    assert len(trace.pre_activations) == (16 if isinstance(net, Vgg) else net.depth - 1)
    assert trace.output.shape == (2, 10)


class Block(nn.Module):
    def __init__(self, now, units, stride, projected):
        super().__init__()
        self.c0, self.b0 = nn.Conv2d(now, units, 3, stride, 1, bias=False), nn.BatchNorm2d(units)
        self.c1, self.b1 = nn.Conv2d(units, units, 3, 1, 1, bias=False), nn.BatchNorm2d(units)
        self.stride, self.more = stride, units - now
        if projected and (stride > 1 or self.more):
            self.cs, self.bs = nn.Conv2d(now, units, 1, stride, bias=False), nn.BatchNorm2d(units)

    def forward(self, x):
        out = self.b1(self.c1(torch.relu(self.b0(self.c0(x)))))
        if hasattr(self, "cs"):
            return torch.relu(out + self.bs(self.cs(x)))
        return torch.relu(out + nn.functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more)))


class Channels(nn.Module):
    """Positions first, as the house flattens them."""

    def forward(self, x):
        return x.permute(0, 2, 3, 1).flatten(1)


class Average(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def torch_copy(net, params):
    """The same network in PyTorch, and its tensors by the house's names."""
    layers, names = [], []

    def normed(conv, bn, name):
        names.extend([(conv.weight, f"{name}.W"), (bn.weight, f"{name}.bn.scale"), (bn.bias, f"{name}.bn.shift")])
        names.extend([(bn.running_mean, f"{name}.bn.mean"), (bn.running_var, f"{name}.bn.variance")])

    now = net.image[2]
    if isinstance(net, Vgg):
        for stage, (units, count) in enumerate(net.stages):
            for place in range(count):
                layers += [nn.Conv2d(now, units, 3, padding=1, bias=False), nn.BatchNorm2d(units), nn.ReLU()]
                normed(layers[-3], layers[-2], f"{stage}.{place}")
                now = units
            layers.append(nn.MaxPool2d(2))
        layers.append(Channels())
        now *= (net.image[0] >> len(net.stages)) * (net.image[1] >> len(net.stages))
    else:
        layers += [
            nn.Conv2d(now, net.channels[0], 3, padding=1, bias=False),
            nn.BatchNorm2d(net.channels[0]),
            nn.ReLU(),
        ]
        normed(layers[0], layers[1], "first")
        now = net.channels[0]
        for stage, units in enumerate(net.channels):
            for place in range((net.depth - 2) // 6):
                block = Block(now, units, 2 if stage and not place else 1, net.shortcut == "projected")
                normed(block.c0, block.b0, f"{stage}.{place}.0")
                normed(block.c1, block.b1, f"{stage}.{place}.1")
                if hasattr(block, "cs"):
                    normed(block.cs, block.bs, f"{stage}.{place}.skip")
                layers.append(block)
                now = units
        layers.append(Average())
    layers.append(nn.Linear(now, net.outputs))
    names += [(layers[-1].weight, "head.W"), (layers[-1].bias, "head.b")]
    model = nn.Sequential(*layers).double()
    # .double() keeps parameters' identity but not that of buffers: looked up anew by their shape of ownership
    tensors = {}
    modules = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    ordered = [name for _, name in names if name.endswith(".bn.mean")]
    for module, name in zip(modules, _in_module_order(model, names, ordered), strict=True):
        tensors[name] = module.running_mean
        tensors[name.replace(".mean", ".variance")] = module.running_var
    tensors |= {name: tensor for tensor, name in names if isinstance(tensor, nn.Parameter)}
    arrays = {**params.trained, **params.state}
    assert set(tensors) == set(arrays)
    with torch.no_grad():
        for name, array in arrays.items():
            tensors[name].copy_(torch.tensor(_theirs(np.asarray(array))))
    return model, tensors


def _in_module_order(model, names, ordered):
    """Names of running means, in the order of the batch norms in `model.modules()`."""
    scale = {id(tensor): name for tensor, name in names}
    return [scale[id(m.weight)].replace(".scale", ".mean") for m in model.modules() if isinstance(m, nn.BatchNorm2d)]


def _theirs(array):
    return np.moveaxis(array, -1, 1).copy() if array.ndim == 4 else array


def drawn(net, seed=0):
    """Weights with batch norms that are not at their start, rows and classes."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: net.init(seed, int(np.prod(net.image))))

    def numbers(leaf):
        if leaf.ndim == 1:
            return rng.uniform(0.5, 1.5, leaf.shape)
        return rng.standard_normal(leaf.shape) * (2 / np.prod(leaf.shape[1:])) ** 0.5

    params = jax.tree.map(numbers, shapes)
    return params, rng.standard_normal((12, int(np.prod(net.image)))), np.eye(3)[rng.integers(0, 3, 12)] - 1 / 3


@NETWORKS
def test_outputs_gradients_and_running_averages_are_those_of_a_copy_in_pytorch(net):
    params, X, y = drawn(net)
    model, tensors = torch_copy(net, params)
    images = torch.tensor(X.reshape(len(X), net.image[2], *net.image[:2]))  # rows hold one channel after the other
    model.eval()
    evaluated = model(images).detach()
    model.train()
    out = model(images)
    loss = nn.functional.cross_entropy(out, torch.tensor(y.argmax(axis=1)))
    names = list(params.trained)
    expected = torch.autograd.grad(loss, [tensors[name] for name in names])

    @jax.jit  # one program for both modes and the gradient: most of this test is compiling
    def everything(params, X):
        def objective(trained):
            outputs, state = net.apply_train(Params(trained, params.fixed, params.state), X)
            return training.CrossEntropy().each(outputs, y).mean(), (outputs, state)

        return net.apply(params, X), *jax.value_and_grad(objective, has_aux=True)(params.trained)

    with jax.enable_x64(True):
        own, (value, (outputs, state)), gradient = everything(params, X)
    np.testing.assert_allclose(own, evaluated, rtol=0, atol=1e-11)
    np.testing.assert_allclose(outputs, out.detach(), rtol=0, atol=1e-11)
    assert float(value) == pytest.approx(loss.item(), rel=1e-12)
    for name, theirs in zip(names, expected, strict=True):
        np.testing.assert_allclose(_theirs(np.asarray(gradient[name])), theirs, rtol=0, atol=1e-11, err_msg=name)
    for name, array in state.items():
        np.testing.assert_allclose(array, tensors[name], rtol=1e-11, atol=1e-13, err_msg=name)


OPTIONS = {
    "batch": None, "momentum": 0.9, "weight_decay": 5e-4, "loss": "mean", "schedule": training.StepDecay((3,)),
    "objective": "cross-entropy", "measures": (), "rows_at_once": 4, "record": 3,
}  # fmt: skip
"""Of all runs here, so that they are one compiled program."""


def test_sgd_with_momentum_and_decay_takes_the_steps_of_pytorch_and_records_with_running_averages():
    net, (params, X, y) = TINY, drawn(TINY)
    model, tensors = torch_copy(net, params)
    images, classes = torch.tensor(X.reshape(12, 2, 8, 8)), torch.tensor(y.argmax(axis=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    model.train()
    for step in range(6):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 if step < 3 else 0.01
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), classes).backward()
        optimizer.step()
    run = training.sgd(net, (X, y.argmax(axis=1)), 0.1, 6, params=params, **OPTIONS)
    for name, array in {**run.params.trained, **run.params.state}.items():
        np.testing.assert_allclose(_theirs(array), tensors[name].detach(), rtol=0, atol=1e-10, err_msg=name)
    model.eval()
    loss = nn.functional.cross_entropy(model(images), classes).item()
    assert run.loss[-1] == pytest.approx(loss, rel=1e-9)  # in pieces of 4 rows: not by the moments of a batch


def test_a_run_that_is_taken_up_again_keeps_its_running_averages(tmp_path):
    params, X, y = drawn(TINY)
    data = (X, y.argmax(axis=1))
    whole = training.sgd(TINY, data, 0.1, 6, params=params, **OPTIONS)
    training.sgd(TINY, data, 0.1, 3, params=params, place=tmp_path, **OPTIONS)
    again = training.sgd(TINY, data, 0.1, 6, params=params, place=tmp_path, **OPTIONS)
    for one, two in zip(jax.tree.leaves(whole.params), jax.tree.leaves(again.params), strict=True):
        np.testing.assert_array_equal(one, two)
    assert np.abs(whole.params.state["0.0.bn.mean"]).max() > 0
    np.testing.assert_array_equal(whole.loss, again.loss)


def test_trace_sees_the_relus_in_evaluation_mode_and_names_max_pooling():
    params, X, _ = drawn(TINY)
    params, X = jax.tree.map(np.float32, params), X.astype(np.float32)
    trace = TINY.trace(params, X)
    assert [g.shape for g in trace.pre_activations] == [(12, 8, 8, 4)]
    np.testing.assert_allclose(trace.output, TINY.apply(params, X), atol=1e-5)
    assert trace.unseen == (Unseen("maximum", ("max pooling",)),)
    held = Frozen(TINY, ("head.W",))
    outputs, state = held.apply_train(held.freeze(params), X)
    np.testing.assert_array_equal(outputs, TINY.apply_train(params, X)[0])
    assert set(state) == set(params.state)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ImageResNet(33), "6b \\+ 2"),
        (lambda: ImageResNet(8, channels=(8, 4, 2)), "none less than the one before"),
        (lambda: ImageResNet(8, shortcut="none"), "'padded' or 'projected'"),
        (lambda: ImageResNet(8, image=(8, 8)), "\\(rows, columns, channels\\)"),
        (lambda: Vgg(stages=((4,), (8, 1))), "expected \\(channels, convolutions\\) of each stage"),
        (lambda: Vgg(image=(16, 16, 3)), "each of the 5 stages halves it"),
        (lambda: Vgg().init(0, 784), "rows have 784 numbers"),
        (lambda: Vgg().kernel()(np.ones((2, 3072))), "no kernel in closed form"),
        (lambda: training.sgd(VGG, (np.ones((4, 128)), [0, 1, 2, 0]), 0.1, 1, params=Params(drawn(VGG)[0].trained, {})),
         "`params` has no '0.0.bn.mean'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(make, words):
    with pytest.raises(ValueError, match=words) as error:
        make()
    assert "\n" not in str(error.value)
