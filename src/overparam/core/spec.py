"""A house object (network, kernel, layer, algorithm, loss) as its name and fields: plain data that makes it again.

Results and kept parts hold Specs, so that nothing has to be read out of a sentence. Objects of others (functions,
models of other frameworks) are recorded by framework, name, shapes and a digest, and cannot be made from that.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, final

import numpy as np

TABLE: Mapping[str, tuple[str, ...]] = {
    "core": (
        "AngularSum", "Combination", "InnerProductCombination", "Normalised", "NormalisedInnerProduct", "PowerProduct",
        "WeightedSum",
    ),
    "networks": (
        "BiasedTwoLayer", "CompositionKernel", "Convolutional", "Frozen", "FullyConnected", "Given", "ImageResNet", "Plain",
        "Residual", "Sequence", "ThreeLayer", "ThreeLayerResNet", "TwoLayer", "Vgg",
    ),
    "kernels": (
        "ArcCosine", "Arcsine", "Composed", "Convolutional", "FullyConnected", "Gaussian", "Laplace", "Myrtle", "Polynomial",
        "ProductLaplace", "RandomFeatures", "Recursive", "Residual", "ResidualConvolutional", "TwoLayer",
    ),
    "training": (
        "CrossEntropy", "GivenLoss", "GradientDescent", "OneSampleSGD", "Ramp", "SGD", "SmoothAbsolute", "SmoothedSGD",
        "Squared", "StepDecay",
    ),
    "layers": (
        "AppendConstant", "BatchNorm", "Bias", "Composition", "Concatenate", "Constant", "Convolution", "Dense", "Dropout",
        "Elementwise", "Erf", "ExpNormalized", "Exponential", "Flatten", "Gabor", "Gaussian", "Gelu", "GlobalPool", "Identity", "Joined",
        "KernelFormula", "LayerNorm", "LeakyRelu", "Linear", "LocallyConnected", "MaxPool", "Normal", "OneOutput", "PaddedSkip",
        "Placed", "Pool", "Product", "RectifiedMonomial", "Relu", "SelfAttention", "Sign", "Signs", "Sine", "Skip", "Slice", "Sum", "Twinned",
        "ZeroOrNormal",
    ),
}  # fmt: skip
"""All that a Spec can make, by room: what a file names is looked up here and never imported by its path."""
FOREIGN = "foreign"
"""The room of what is not ours."""


@final
@dataclass(frozen=True)
class Spec:
    """room, name: as in `TABLE`; `fields`: JSON, in which other Specs are {"room": …, "name": …, "fields": …}.

    `spec["objective"]` is a field, a Spec where it is one. `str(spec)` names the class and what is not at its default; a
    loss is said by its own name.

    >>> from overparam.networks import TwoLayer
    >>> spec = spec_of(TwoLayer(8, paired=True))
    >>> str(spec), spec["width"], spec.make() == TwoLayer(8, paired=True)
    ('TwoLayer(width=8, paired=True)', 8, True)
    """

    room: str
    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        value = self.fields[name]
        return Spec.from_json(value) if _is_spec(value) else value

    def get(self, name: str, otherwise: Any = None) -> Any:
        """A field, or `otherwise` where there is none of that name."""
        return self[name] if name in self.fields else otherwise

    @property
    def house(self) -> bool:
        """Whether `make` can make it: it is ours, and so is all that it holds."""
        return self.room != FOREIGN and all(_is_ours(value) for value in self.fields.values())

    def make(self) -> Any:
        """The object again; one line where it is not ours to make, or nothing this version knows."""
        if self.room == FOREIGN:
            raise ValueError(
                f"{self} is not an object of overparam and cannot be made from its record; pass the object"
            )
        if self.name not in TABLE.get(self.room, ()):
            raise ValueError(f"{self.room}.{self.name} is nothing this version can make; it may be of a newer one")
        kind = getattr(importlib.import_module(f"overparam.{self.room}"), self.name)
        try:
            return kind(**{name: _made(value) for name, value in self.fields.items()})
        except TypeError as error:
            raise ValueError(f"a {self.name} cannot be made of these fields ({error})") from None

    def __str__(self) -> str:
        if self.room == FOREIGN:
            return self.name
        defaults = default_fields(self.room, self.name)
        changed = {
            name: value for name, value in self.fields.items() if name not in defaults or value != defaults[name]
        }
        return f"{self.name}({', '.join(words for words in map(_said, changed, changed.values()) if words)})"

    def to_json(self) -> dict[str, Any]:
        """As it goes into result.json."""
        return {"room": self.room, "name": self.name, "fields": dict(self.fields)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Spec:
        """The inverse of `to_json`."""
        return cls(str(value["room"]), str(value["name"]), dict(value["fields"]))


def spec_of(thing: Any) -> Spec:
    """The Spec of a house object; of anything else its framework, name, shapes of weights and their digest.

    >>> spec_of(len)
    Spec(room='foreign', name='len', fields={'framework': 'builtins', 'shapes': [], 'digest': None})
    """
    if isinstance(thing, Spec):
        return thing
    room = _room_of(thing)
    if room is None:
        return _foreign(thing)
    return Spec(room, type(thing).__name__, {part.name: _plain(getattr(thing, part.name)) for part in fields(thing)})


def _room_of(thing: Any) -> str | None:
    kind = type(thing)
    if not is_dataclass(thing) or isinstance(thing, type):
        return None
    house, _, rest = kind.__module__.partition(".")
    room = rest.partition(".")[0]
    return room if house == "overparam" and kind.__name__ in TABLE.get(room, ()) else None


def _plain(value: Any) -> Any:
    """A field as JSON."""
    if value is None or isinstance(value, bool | int | str | float):
        return value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if getattr(value, "shape", None) == () and getattr(value, "dtype", None) is not None:
        return np.asarray(value).item()
    return spec_of(value).to_json()


def _is_spec(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"room", "name", "fields"}


def _is_ours(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_ours, value))
    if not isinstance(value, Mapping):
        return True
    return Spec.from_json(value).house if _is_spec(value) else all(map(_is_ours, value.values()))


def _made(value: Any) -> Any:
    if _is_spec(value):
        return Spec.from_json(value).make()
    if isinstance(value, list | tuple):
        return tuple(_made(item) for item in value)
    return value


def _foreign(thing: Any) -> Spec:
    """A function, a model of another framework, or an object of ours that holds one."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    named = getattr(thing, "name_of_model", None) or getattr(thing, "__name__", None) or type(thing).__name__
    arrays = [array for array in _arrays_of(thing) if hasattr(array, "shape")]
    digest = hashlib.sha256()
    for array in arrays:
        plain = np.ascontiguousarray(np.asarray(array))
        digest.update(f"{plain.dtype}{plain.shape}".encode())
        digest.update(plain.tobytes())
    framework = (getattr(thing, "__module__", None) or type(thing).__module__).partition(".")[0]
    about = {
        "framework": framework,
        "shapes": [[int(size) for size in array.shape] for array in arrays],
        "digest": digest.hexdigest() if arrays else None,
    }
    return Spec(FOREIGN, str(named), about)


def _arrays_of(thing: Any) -> list[Any]:
    """The weights of a model: `parameters()` of PyTorch, leaves of a pytree; none of a function."""
    if callable(getattr(thing, "named_parameters", None)):
        return [weight.detach().cpu().numpy() for _, weight in thing.named_parameters()]
    if isinstance(thing, type) or (callable(thing) and not is_dataclass(thing)):
        return []
    import jax

    if is_dataclass(thing):
        return [leaf for part in fields(thing) for leaf in jax.tree.leaves(getattr(thing, part.name))]
    return jax.tree.leaves(thing)


def default_fields(room: str, name: str) -> dict[str, Any]:
    """The fields of a class that have a default, as a Spec holds them.

    >>> default_fields("networks", "TwoLayer")["paired"]
    False
    """
    if name not in TABLE.get(room, ()):
        return {}
    kind = getattr(importlib.import_module(f"overparam.{room}"), name)
    return {part.name: _plain(part.default) for part in fields(kind) if part.default is not MISSING}


def _said(name: str, value: Any) -> str:
    """A field in words: a loss by its own name, nothing of weights."""
    if not _is_spec(value):
        rates = isinstance(value, Mapping) and value and all(isinstance(v, int | float) for v in value.values())
        return f"{name}={_shown(value)}" if rates or not isinstance(value, Mapping) else ""
    if value["room"] == "training" and "name" in value["fields"]:
        return str(value["fields"]["name"])
    return "" if value["fields"].get("shapes") else f"{name}={_shown(value)}"


def _shown(value: Any) -> str:
    if _is_spec(value):
        return str(Spec.from_json(value))
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_shown(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        inner = ", ".join(_shown(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return str(value)
