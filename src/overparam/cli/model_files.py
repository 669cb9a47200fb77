"""A model, or a function that gives one, from a file that the user names, such as model.py:make; failures are one line."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overparam.core.reading import place_of
from overparam.core.words import count_of

if TYPE_CHECKING:
    from overparam.data import Dataset


def model_from(text: str, data: Dataset, seed: int) -> Any:
    """What the function gives, with PyTorch seeded; or the model itself, where the name is that of one.

    It is called with the data where it has a parameter called `data`, or one that it cannot do without.

    The file is run, because the user names it; its folder is importable while it is.

    Args:
        text: PATH:NAME.
        data: for a function that takes an argument: `data.d` features, `data.k` outputs.
        seed: of PyTorch's draws inside the function; the random state is as before afterwards.
    """
    place, _, name = text.rpartition(":")
    path = place_of(place)
    if not place or not name.isidentifier():
        raise ValueError(f"MODEL is {text!r}; expected a file and a function in it, such as model.py:make")
    if not path.is_file():
        raise ValueError(f"MODEL names {place!r}, and there is no such file; expected a file such as model.py")
    with _importable(path.resolve().parent), _seeded(seed):
        module = _run(path)
        make = getattr(module, name, None)
        if make is None:
            there = [n for n, v in vars(module).items() if inspect.isroutine(v) and v.__module__ == module.__name__]
            raise ValueError(f"{path} has no {name!r}; it has {', '.join(there) or 'no function'}")
        if _is_model(make):
            return make
        if not callable(make):
            raise ValueError(f"{name!r} of {path} is a {type(make).__name__}; expected a function that gives the model")
        given = _arguments(make, data, f"{name!r} of {path}")
        try:
            return make(*given.args, **given.kwargs)
        except Exception as error:
            raise ValueError(_said(error, path, f"{name!r} of {path} failed")) from error


def _is_model(found: Any) -> bool:
    """Whether it is a model itself, which may be callable too."""
    origins = {cls.__module__.partition(".")[0] for cls in type(found).__mro__}
    return not isinstance(found, type) and bool(origins & {"torch", "flax", "equinox"})


def _arguments(make: Any, data: Dataset, what: str) -> inspect.BoundArguments:
    """The data where the function asks for them: by a parameter called `data`, or one that it cannot do without."""
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):  # written in C
        return inspect.Signature().bind()
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in signature.parameters.values() if p.default is p.empty and p.kind not in several]
    wanted = needed or [p for p in signature.parameters.values() if p.name == "data" and p.kind not in several]
    if len(wanted) > 1:
        raise ValueError(f"{what} needs {count_of(len(wanted), 'argument')}; expected none, or one: the data")
    if not wanted:
        return signature.bind()
    alone = wanted[0].kind is wanted[0].POSITIONAL_ONLY
    return signature.bind(data) if alone else signature.bind(**{wanted[0].name: data})


def _run(path: Path) -> Any:
    name = f"overparam_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file; expected one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(_said(error, path, f"{path} cannot be run")) from error
    return module


def _said(error: Exception, path: Path, what: str) -> str:
    """What went wrong in the user's code, with the last line of the file that took part."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path.resolve()
    ]
    lines += [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    where = f" (line {lines[-1]})" if lines else ""
    return f"{what}{where}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """The folder first among those that are searched, for files that stand beside the model's."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """PyTorch's draws from this seed inside, where it is installed; its random state as before afterwards."""
    try:
        import torch
    except ImportError:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
