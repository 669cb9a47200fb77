"""`nt.predict`: what gradient descent does with outputs, by the archived library's names; the formulas are those of `overparam.theory`.

A kernel between outputs of shape (n, …) has two axes for every axis of the outputs that is not traced, one of each side. Flat, the
outputs are (m, T): m the untraced numbers, T the traced ones, which all have the same m × m kernel.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import scipy.linalg

from overparam.core import checks
from overparam.neural_tangents.arithmetic import FEW, of_jax
from overparam.theory import ensembles, loss_flows

ODE_TOL = 1.5e-8
"""Of a step of the ODE, of outputs of size 1; in float32 what that precision allows."""


class Gaussian(NamedTuple):
    """Outputs as a Gaussian: mean of their shape, covariance of a kernel's."""

    mean: Any
    covariance: Any


@dataclass(frozen=True, eq=False)
class ODEState:
    """Outputs, and with momentum their speeds in the time √η t; a pytree."""

    fx_train: Any = None
    fx_test: Any = None
    qx_train: Any = None
    qx_test: Any = None


_STATE = ("fx_train", "fx_test", "qx_train", "qx_test")
jax.tree_util.register_dataclass(ODEState, _STATE, [])


class _Layout:
    """How outputs of one shape lie flat, (m, T)."""

    def __init__(self, y: Any, trace_axes: int | Sequence[int]) -> None:
        axes = (trace_axes,) if isinstance(trace_axes, int) else trace_axes
        self.traced = tuple(sorted({axis % y.ndim for axis in axes}))
        self.sizes = tuple(y.shape[axis] for axis in self.traced)
        self._ends = tuple(range(-len(self.traced), 0))

    def flat(self, values: Any) -> Any:
        move = np.moveaxis if isinstance(values, np.ndarray) else jnp.moveaxis
        return move(values, self.traced, self._ends).reshape(-1, math.prod(self.sizes))

    def shape(self, untraced: tuple[int, ...]) -> tuple[int, ...]:
        """Of outputs, from the sizes of the axes that are not traced."""
        shape = list(untraced)
        for axis, size in zip(self.traced, self.sizes, strict=True):
            shape.insert(axis, size)
        return tuple(shape)

    def back(self, values: Any, untraced: tuple[int, ...], times: tuple[int, ...] = ()) -> Any:
        """Outputs of (times…, m, T), times first."""
        whole = values.reshape(*times, *untraced, *self.sizes)
        move = np.moveaxis if isinstance(whole, np.ndarray) else jnp.moveaxis
        return move(whole, self._ends, [len(times) + axis for axis in self.traced])


def _matrix(kernel: Any) -> Any:
    """(a, a′, b, b′, …) as (ab…, a′b′…)."""
    if kernel.ndim == 2:
        return kernel
    rows, columns = kernel.shape[::2], kernel.shape[1::2]
    order = [*range(0, kernel.ndim, 2), *range(1, kernel.ndim, 2)]
    return kernel.transpose(order).reshape(math.prod(rows), math.prod(columns))


def _kernel_back(matrix: Any, rows: tuple[int, ...], times: tuple[int, ...] = ()) -> Any:
    """A covariance (times…, m, m) in the order of a kernel's axes."""
    whole = matrix.reshape(*times, *rows, *rows)
    lead, k = len(times), len(rows)
    return whole.transpose(*range(lead), *(lead + axis + side * k for axis in range(k) for side in (0, 1)))


def _now(*values: Any) -> contextlib.AbstractContextManager[Any]:
    """Work on known numbers is done once and kept, also when the caller is being compiled.

    Elsewhere nothing is changed: programs that are compiled inside would have their constants made beforehand, as large as they are.
    """
    compiling = checks.is_traced(jax.device_put(np.zeros(())))
    return jax.ensure_compile_time_eval() if compiling and not _traced(values) else contextlib.nullcontext()


def _traced(values: Any) -> bool:
    return any(checks.is_traced(leaf) for leaf in jax.tree.leaves(values))


def _space(*values: Any) -> Any:
    """NumPy, in float64, where all numbers are known and few, so that nothing is compiled; JAX elsewhere."""
    few = all(np.size(leaf) <= FEW for leaf in jax.tree.leaves(values))
    return jnp if _traced(values) or not few else np


def _in(xp: Any, values: Any, dtype: Any) -> Any:
    """An array of that namespace."""
    return np.asarray(values, np.float64) if xp is np else jnp.asarray(values, dtype)


def _out(values: Any, dtype: Any) -> Any:
    """Arrays of JAX, in the precision that was asked for."""
    wide = dtype == jnp.float64

    def one(array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            return array
        made = of_jax(array, wide)
        return made if made.dtype == dtype else made.astype(dtype)

    return jax.tree.map(one, values)


class _Dynamics:
    """K + ridge, factored when first asked: by Cholesky for ever, by eigenvectors for a time."""

    def __init__(self, kernel: Any, diag_reg: Any, absolute: bool) -> None:
        self.dtype = jnp.result_type(kernel)
        xp = _space(kernel, diag_reg)
        K = _matrix(_in(xp, kernel, self.dtype))
        ridge = diag_reg if absolute else diag_reg * xp.trace(K) / len(K)
        self.matrix = K + ridge * xp.eye(len(K), dtype=K.dtype)

    @functools.cached_property
    def _factor(self) -> Any:
        if isinstance(self.matrix, np.ndarray):
            try:
                return scipy.linalg.cho_factor(self.matrix, lower=True)
            except (scipy.linalg.LinAlgError, ValueError):  # as JAX has it where there is none
                return np.full_like(self.matrix, np.nan), True
        with _now(self.matrix):
            return jax.scipy.linalg.cho_factor(self.matrix, lower=True)

    @functools.cached_property
    def eigen(self) -> tuple[Any, Any]:
        if isinstance(self.matrix, np.ndarray):
            if np.isfinite(self.matrix).all():
                return tuple(np.linalg.eigh((self.matrix + self.matrix.T) / 2))  # pyright: ignore[reportReturnType]
            return np.full(len(self.matrix), np.nan), np.full_like(self.matrix, np.nan)
        with _now(self.matrix):
            return tuple(jnp.linalg.eigh(self.matrix))  # pyright: ignore[reportReturnType]

    def of(self, xp: Any, array: Any) -> Any:
        """What was made once, for this namespace."""
        return _in(xp, array, self.dtype)

    def learned(self, B: Any, t: Any = None) -> Any:
        """A_t(K + ridge) B, of every time in a first axis; for ever without one."""
        xp = np if isinstance(B, np.ndarray) and isinstance(self.matrix, np.ndarray) else jnp
        if t is None:
            factor, lower = self._factor
            if xp is np:
                return scipy.linalg.cho_solve((factor, lower), B, check_finite=False)
            return jax.scipy.linalg.cho_solve((self.of(jnp, factor), lower), B)
        h, U = (self.of(xp, each) for each in self.eigen)
        return ensembles.in_eigenbasis(xp, U, ensembles.flowed(xp, h[None], t[:, None]), B)

    def left(self, B: Any, t: Any) -> Any:
        """e^{−(K + ridge)t} B, of every time."""
        xp = np if isinstance(B, np.ndarray) and isinstance(self.matrix, np.ndarray) else jnp
        h, U = (self.of(xp, each) for each in self.eigen)
        return ensembles.in_eigenbasis(xp, U, ensembles.kept(xp, h[None], t[:, None]), B)


def _times(xp: Any, t: Any, rate: Any, dtype: Any) -> tuple[Any, tuple[int, ...]]:
    t = _in(xp, t, dtype)
    return (t * rate).reshape(-1), t.shape


def _require_kernel(fx_test_0: Any, k_test_train: Any) -> None:
    if fx_test_0 is not None and k_test_train is None:
        raise ValueError("`fx_test_0` came without `k_test_train`, the kernel of test points with training points")


def gradient_descent_mse(
    k_train_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """predict_fn(t=None, fx_train_0=0, fx_test_0=None, k_test_train=None): outputs under gradient flow of the mean squared loss.

        f_t = y + e^{−Kηt/N}(f₀ − y),   f_t(x) = f₀(x) + K(x, X) A(K) (y − f₀),   A(h) = (1 − e^{−hηt/N})/h,   N = y.size

    t is a number, an array of any shape (first axes of what comes out) or None for ever; the kernel is factored once.

    Args:
        k_train_train: kernel of training points, two axes for every axis of y that is not traced.
        y_train: targets.
        learning_rate: η.
        diag_reg: added to the diagonal of the kernel: times its mean, or as it is with `diag_reg_absolute_scale`.
        trace_axes: axes of y that share one kernel.

    >>> fit = gradient_descent_mse(jnp.array([[2.0]]), jnp.array([[1.0]]))
    >>> [round(float(value[0, 0]), 3) for value in (fit(None, 0.0, 0.0, jnp.array([[1.0]]))[1], fit(1.0))]  # ½; 1 − e⁻²
    [0.5, 0.865]
    """
    layout = _Layout(y_train, trace_axes)
    with _now(k_train_train, y_train, diag_reg):
        dynamics = _Dynamics(k_train_train, diag_reg, diag_reg_absolute_scale)
    dtype = dynamics.dtype

    def predict_fn(t: Any = None, fx_train_0: Any = 0.0, fx_test_0: Any = None, k_test_train: Any = None) -> Any:
        _require_kernel(fx_test_0, k_test_train)
        xp = _space(dynamics.matrix, y_train, learning_rate, t, fx_train_0, fx_test_0, k_test_train)
        start = None if fx_train_0 is None else xp.broadcast_to(_in(xp, fx_train_0, dtype), y_train.shape)
        y = _in(xp, y_train, dtype)
        residual = layout.flat(y if start is None else y - start)
        at, shape = (None, ()) if t is None else _times(xp, t, learning_rate / y_train.size, dtype)
        found = []
        if start is not None or fx_test_0 is None:
            fitted = y if at is None else layout.flat(y)[None] - dynamics.left(residual, at)
            found.append(fitted if at is None else layout.back(fitted, k_train_train.shape[1::2], shape))
        if fx_test_0 is not None:
            rows = k_test_train.shape[::2]
            first = layout.flat(xp.broadcast_to(_in(xp, fx_test_0, dtype), layout.shape(rows)))
            added = _matrix(_in(xp, k_test_train, dtype)) @ dynamics.learned(residual, at)
            found.append(layout.back((first if at is None else first[None]) + added, rows, shape))
        return _out(found[0] if len(found) == 1 else tuple(found), dtype)

    return predict_fn


def gradient_descent(
    loss: Callable[[Any, Any], Any],
    k_train_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    momentum: float | None = None,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """predict_fn(t=None, fx_train_or_state_0=0, fx_test_0=None, k_test_train=None): outputs under gradient flow of any loss, by an ODE.

        df/dτ = −K ∇L(f), τ = ηt;   with momentum β  d²f/dτ² = −K ∇L(f) − (1 − β)/√η df/dτ, τ = √η t

    An `ODEState` in gives one out. t is a number or an array of rising numbers; None for ever, NaN where that does not come to
    rest. As `theory.predict_flow`, without its targets.

    Args:
        loss: loss(f, y), one number.
        momentum: β of heavy ball.
        k_train_train, y_train, learning_rate, trace_axes: as in `gradient_descent_mse`.
    """
    layout = _Layout(y_train, trace_axes)
    K, dtype = _matrix(k_train_train), k_train_train.dtype
    unit = learning_rate if momentum is None else learning_rate**0.5
    friction = None if momentum is None else (1 - momentum) / unit
    gradient = jax.grad(lambda f: loss(f, y_train))

    def predict_fn(
        t: Any = None, fx_train_or_state_0: Any = 0.0, fx_test_0: Any = None, k_test_train: Any = None
    ) -> Any:
        given = fx_train_or_state_0
        asked = given if isinstance(given, ODEState) else ODEState(given, fx_test_0)
        _require_kernel(asked.fx_test, k_test_train)
        rows = None if k_test_train is None else k_test_train.shape[::2]
        of_test = None if rows is None else layout.shape(rows)

        def whole(value: Any, shape: Any) -> Any:
            return jnp.broadcast_to(jnp.asarray(0.0 if value is None else value, dtype), shape)

        tested = asked.fx_test is not None
        if momentum is None and (asked.qx_train is not None or asked.qx_test is not None):
            raise ValueError("a state with speeds came to gradient descent without momentum; pass `momentum`")
        state = (
            whole(asked.fx_train, y_train.shape),
            whole(asked.fx_test, of_test) if tested else None,
            None if momentum is None else whole(asked.qx_train, y_train.shape),
            whole(asked.qx_test, of_test) if tested and momentum is not None else None,
        )

        def push(g: Any) -> tuple[Any, Any]:
            flat = layout.flat(g)
            on = layout.back(K @ flat, k_train_train.shape[::2])
            return on, layout.back(_matrix(k_test_train) @ flat, rows) if tested else None  # pyright: ignore[reportArgumentType]

        at, shape = _times(jnp, jnp.inf if t is None else t, unit, dtype)
        slope = loss_flows.output_slope(gradient, push, friction)
        states, _ = loss_flows.integrate(slope, state, at, ODE_TOL)
        found = ODEState(*jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), states))
        if isinstance(given, ODEState):
            return found
        if fx_test_0 is None:
            return found.fx_train
        return found.fx_test if given is None else (found.fx_train, found.fx_test)

    return predict_fn


def _names(get: Any) -> tuple[str, ...]:
    names = ("nngp", "ntk") if get is None else (get,) if isinstance(get, str) else tuple(get)
    return tuple(name.lower() for name in names)


@functools.lru_cache(maxsize=32)
def _tuple_of(names: tuple[str, ...]) -> Any:
    return namedtuple("Gaussians", names)


def _as_asked(get: Any, found: dict[str, Any]) -> Any:
    return next(iter(found.values())) if isinstance(get, str) else _tuple_of(tuple(found))(**found)


def _part(kernels: Any, name: str) -> Any:
    """One kernel of several, or the array that came alone."""
    return getattr(kernels, name) if hasattr(kernels, name) else kernels


def _distribution(
    name: str,
    layout: _Layout,
    dynamics: _Dynamics,
    y: Any,
    k_td: Any,
    k_tt: Any,
    start: Any,
    cross: Any,
    at: Any,
    shape: Any,
) -> Any:
    """Mean, or mean and covariance, on test points, of a Bayesian network ("nngp", "ntkgp") or an ensemble ("ntk")."""
    xp = _space(dynamics.matrix, y, k_td, k_tt, start, cross, at)
    y, at, rows = _in(xp, y, dynamics.dtype), at if at is None else _in(xp, at, dynamics.dtype), k_td.shape[::2]
    K_new = _matrix(_in(xp, k_td, dynamics.dtype))
    mean = layout.back(K_new @ dynamics.learned(layout.flat(y), at), rows, shape)
    if k_tt is None:
        return _out(mean, dynamics.dtype)
    at_new = _matrix(_in(xp, k_tt, dynamics.dtype))
    if name == "ntk":
        start, cross = (_in(xp, each, dynamics.dtype) for each in (start, cross))
        covariance = ensembles.spread(xp, at_new, cross, dynamics.learned(K_new.T, at), start)
    else:  # draws and the labels' noise together: A twice as late
        known = K_new @ dynamics.learned(K_new.T, None if at is None else 2 * at)
        covariance = xp.broadcast_to(at_new, known.shape) - (known + xp.swapaxes(known, -1, -2)) / 2
    return _out(Gaussian(mean, _kernel_back(covariance, rows, shape)), dynamics.dtype)


def gp_inference(
    k_train_train: Any,
    y_train: Any,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """predict_fn(get=None, k_test_train=None, k_test_test=None): the posterior on test points, mean or `Gaussian`.

    get: "nngp", Bayesian; "ntk", the ensemble of networks trained for ever, whose covariance needs both kernels; "ntkgp", Bayesian with
    the tangent kernel as covariance; or a tuple. Formulas: `overparam.theory.posterior`. Without `k_test_train` the training points are
    fitted, without noise.

    Args:
        k_train_train: an array, a `Kernel`, or a named tuple of kernels.
        y_train, diag_reg, diag_reg_absolute_scale, trace_axes: as in `gradient_descent_mse`.
    """
    layout = _Layout(y_train, trace_axes)

    @functools.cache
    def dynamics(name: str) -> _Dynamics:
        kernel = _part(k_train_train, name)
        with _now(kernel, diag_reg):
            return _Dynamics(kernel, diag_reg, diag_reg_absolute_scale)

    def predict_fn(get: Any = None, k_test_train: Any = None, k_test_test: Any = None) -> Any:
        found = {}
        for name in _names(get):
            checks.one_of(name, "get", ("nngp", "ntk", "ntkgp"))
            followed = "ntk" if name == "ntkgp" else name
            k_dd = _part(k_train_train, followed)
            y = _out(_in(_space(y_train), y_train, k_dd.dtype), k_dd.dtype)
            if k_test_train is None:
                found[name] = y if k_test_test is None else Gaussian(y, jnp.zeros_like(k_dd))
                continue
            start = cross = k_tt = None
            if k_test_test is not None:
                if name == "ntk" and not (hasattr(k_train_train, "nngp") and hasattr(k_test_train, "nngp")):
                    raise ValueError(
                        "the covariance of 'ntk' needs the kernels 'nngp' too, of training points and of test points with them; make both "
                        "with `get=('nngp', 'ntk')`"
                    )
                k_tt = _part(k_test_test, "ntk" if name == "ntkgp" else "nngp")
                if name == "ntk":
                    start, cross = _matrix(k_train_train.nngp), _matrix(k_test_train.nngp)
            k_td = _part(k_test_train, followed)
            found[name] = _distribution(name, layout, dynamics(followed), y, k_td, k_tt, start, cross, None, ())
        return _as_asked(get, found)

    return predict_fn


def gradient_descent_mse_ensemble(
    kernel_fn: Callable[..., Any],
    x_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
    **kernel_fn_train_train_kwargs: Any,
) -> Callable[..., Any]:
    """predict_fn(t=None, x_test=None, get=None, compute_cov=False, **kernel_fn_test_test_kwargs): outputs of all wide networks at time t.

    Means, or `Gaussian`s, over random weights, under gradient flow of the mean squared loss: "ntk" of networks trained in full, "nngp" of
    those whose last layer alone is trained, for ever the Bayesian posterior. Formulas: `overparam.theory.posterior` with
    A(h) = (1 − e^{−hηt/N})/h. Without `x_test` on the training points.

    Args:
        kernel_fn: kernel_fn(x1, x2, get, …), of an infinite network or of finite ones.
        x_train, y_train: training points and targets.
        learning_rate, diag_reg, diag_reg_absolute_scale, trace_axes: as in `gradient_descent_mse`.
        kernel_fn_train_train_kwargs: for `kernel_fn`. Pairs of them are of its two inputs: test points take theirs from the
            arguments of `predict_fn`.
    """
    layout = _Layout(y_train, trace_axes)
    of_train = kernel_fn_train_train_kwargs
    kernels: dict[str, Any] = {}

    def trained(first: str, *others: str) -> Any:
        """A kernel of the training points; those not made yet in one pass."""
        lacking = [name for name in (first, *others) if name not in kernels]
        if lacking:
            with _now(x_train, of_train):
                made = _uncompiled(kernel_fn, x_train, of_train)(
                    x_train, None, tuple(lacking) if len(lacking) > 1 else lacking[0], **of_train
                )
            kernels.update({name: _part(made, name) for name in lacking})
        return kernels[first]

    @functools.cache
    def dynamics(name: str) -> _Dynamics:
        with _now(trained(name), diag_reg):
            return _Dynamics(trained(name), diag_reg, diag_reg_absolute_scale)

    def predict_fn(
        t: Any = None, x_test: Any = None, get: Any = None, compute_cov: bool = False, **kernel_fn_test_test_kwargs: Any
    ) -> Any:
        names = _names(get)
        for name in names:
            checks.one_of(name, "get", ("nngp", "ntk"))
        needed = tuple(dict.fromkeys((("nngp",) if compute_cov else ()) + tuple(sorted(names))))
        trained(*needed)
        k_td = k_tt = None
        if x_test is not None:
            across, own = _options_of_test(of_train, kernel_fn_test_test_kwargs)
            k_td = _uncompiled(kernel_fn, x_train, x_test, across)(x_test, x_train, needed, **across)
            k_tt = _uncompiled(kernel_fn, x_test, own)(x_test, None, "nngp", **own) if compute_cov else None
        found = {}
        for name in names:
            k_dd = trained(name)
            y = _out(_in(_space(y_train), y_train, k_dd.dtype), k_dd.dtype)
            space = _space(k_dd, t, learning_rate)
            at, shape = (None, ()) if t is None else _times(space, t, learning_rate / y_train.size, k_dd.dtype)
            if k_td is None:
                found[name] = _on_training_points(name, k_dd, y, at, shape, compute_cov)
                continue
            start = cross = None
            if compute_cov and name == "ntk":
                start, cross = _matrix(trained("nngp")), _matrix(k_td.nngp)
            found[name] = _distribution(
                name, layout, dynamics(name), y, getattr(k_td, name), k_tt, start, cross, at, shape
            )
        return _as_asked(get, found)

    def _on_training_points(name: str, k_dd: Any, y: Any, at: Any, shape: Any, compute_cov: bool) -> Any:
        if at is None:
            return Gaussian(y, jnp.zeros_like(k_dd)) if compute_cov else y
        rows, flow = k_dd.shape[::2], dynamics(name)
        start = flow.matrix if name == "nngp" or not compute_cov else _matrix(trained("nngp"))
        xp = _space(flow.matrix, y, at, start)
        flat, at, start = layout.flat(_in(xp, y, flow.dtype)), _in(xp, at, flow.dtype), _in(xp, start, flow.dtype)
        mean = layout.back(flat[None] - flow.left(flat, at), rows, shape)
        if not compute_cov:
            return _out(mean, flow.dtype)
        left = flow.left(xp.eye(len(start), dtype=start.dtype), at)  # f_t − E f_t = e^{−Kt} f₀
        covariance = left @ start @ xp.swapaxes(left, -1, -2)
        return _out(Gaussian(mean, _kernel_back(covariance, rows, shape)), flow.dtype)

    return predict_fn


def _uncompiled(kernel_fn: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """A kernel of layers without `jax.jit` around it, where all numbers are known and few: then nothing needs to be compiled."""
    bare = getattr(kernel_fn, "__wrapped__", None)
    return bare if hasattr(bare, "requirements") and _space(*arguments) is np else kernel_fn  # pyright: ignore


def _options_of_test(of_train: dict[str, Any], of_test: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of `kernel_fn` of test points with training points, and of test points alone."""
    across, own = dict(of_train), dict(of_train)
    for name, value in of_test.items():
        if name not in of_train:
            raise ValueError(f"`{name}` came for the test points alone; pass it to `gradient_descent_mse_ensemble` too")
        before = of_train[name]
        arrays = all(hasattr(leaf, "shape") for leaf in jax.tree.leaves((before, value)))
        if not arrays and before != value:
            raise ValueError(
                f"`{name}` is {before!r} of the training points and {value!r} of the test points; pass one value"
            )
        pair = name != "params" and all(isinstance(each, tuple) and len(each) == 2 for each in (before, value))
        across[name] = (value[0], before[0]) if pair else value
        own[name] = value
    return across, own


def max_learning_rate(
    ntk_train_train: Any, y_train_size: int | None = None, momentum: float = 0.0, eps: float = 1e-12
) -> Any:
    """2(1 + β) N/λ_max: the largest rate at which gradient descent of the mean squared loss is stable; `op.max_learning_rate` brackets it.

    Args:
        ntk_train_train: kernel of training points.
        y_train_size: N; None takes the rows of the kernel, as with `trace_axes=()`.
        momentum: β.
        eps: added to λ_max.

    >>> round(float(max_learning_rate(jnp.diag(jnp.array([1.0, 4.0])))), 6)  # 2 · 2/4
    1.0
    """
    xp, dtype = _space(ntk_train_train, momentum), jnp.result_type(ntk_train_train)
    K = _matrix(_in(xp, ntk_train_train, dtype))
    count = len(K) if y_train_size is None else y_train_size
    return _out(xp.asarray(2 * (1 + momentum) * count / (xp.linalg.eigvalsh(K)[-1] + eps)), dtype)
