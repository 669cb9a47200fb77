"""The evidence of labels under a Gaussian process, its gradient, and kernels fitted by it.

    log p(y) = −½ Σ_r y_rᵀA⁻¹y_r − k/2 log det A − nk/2 log 2π,   A = H + ridge,   k outputs

By a Cholesky factor where it fits, beyond by conjugate gradients and stochastic Lanczos quadrature with standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from overparam.core import checks
from overparam.core.kernel import AbstractKernel
from overparam.engines.matrix import AbstractGram, as_gram
from overparam.spectrum.bounds import CHOLESKY_FITS
from overparam.spectrum.cholesky import Factor, factor
from overparam.spectrum.linear_systems import solve
from overparam.spectrum.sweep import quadrature

Method = Literal["auto", "Cholesky", "Lanczos"]
STOPS = 1e-9
"""Relative change of the fitted evidence at which the search ends."""


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """log p(y) and its gradient; with probes, standard errors of both.

    Attributes:
        value: in nats.
        gradient: by "ridge" and by the name of every derivative that was given.
        fit: −½ Σ_r y_rᵀA⁻¹y_r, the part that rewards explaining the labels.
        complexity: −k/2 log det A, the part that punishes kernels that could explain anything.
        error: standard error of `value` from the probes of log det; 0 by Cholesky.
        gradient_error: the same of the gradient.
        method: "Cholesky" or "Lanczos".
    """

    value: float
    gradient: dict[str, float]
    fit: float
    complexity: float
    error: float
    gradient_error: dict[str, float]
    method: str


def evidence(
    H: Any,
    y: Any,
    ridge: float = 0.0,
    *,
    derivatives: Mapping[str, Any] | None = None,
    method: Method = "auto",
    probes: int = 32,
    tol: float = 1e-8,
    key: int = 0,
) -> Evidence:
    """log p(y) of labels under a Gaussian process of covariance H + ridge, and its gradient.

        ∂ log p/∂θ = ½ Σ_r α_rᵀ(∂A/∂θ)α_r − k/2 tr(A⁻¹ ∂A/∂θ),   α_r = A⁻¹y_r

    log det and trace are exact by a factor; by "Lanczos" they are means over random signs z of zᵀ log(A) z and zᵀA⁻¹(∂A/∂θ)z, which
    need products with H alone.

    Assumes: labels are draws of the process, with independent noise of variance `ridge`; wide networks are one with H the kernel of
    outputs, `get="nngp"`.

    Args:
        H: a Gram matrix, or a symmetric matrix of numbers.
        y: (n,) or (n, k), every output a draw of its own.
        ridge: variance of the noise, ≥ 0.
        derivatives: ∂H/∂θ by name, as Gram matrices or arrays.
        method: "auto" takes a factor up to 6,000 rows of a matrix on the CPU.
        probes: draws of random signs.
        tol: of the solves, and of the quadrature.
        key: of the probes.

    >>> found = evidence(np.diag([1.0, 3.0]), [2.0, 0.0], ridge=1.0)  # −½·2²/2 − ½ log 8 − log 2π
    >>> round(found.value, 9), round(found.gradient["ridge"], 9)  # ½·(2/2)² − ½(½ + ¼)
    (-3.877597837, 0.125)
    """
    H = as_gram(H)
    y = checks.targets(y, H.n)
    ridge = checks.positive(ridge, "ridge", zero=True)
    checks.one_of(method, "method", ("auto", "Cholesky", "Lanczos"))
    given = {
        name: dH if isinstance(dH, AbstractGram) else checks.finite_matrix(dH, name)
        for name, dH in (derivatives or {}).items()
    }
    for name, dH in given.items():
        if dH.shape != H.shape or name == "ridge":
            raise ValueError(
                f"the derivative {name!r} has shape {dH.shape}; expected {H.shape}, as of H, and a name other than 'ridge'"
            )
    Y = y.reshape(H.n, -1)
    if method == "auto":
        method = "Cholesky" if H.xp is np and H.n <= CHOLESKY_FITS else "Lanczos"
    if method == "Cholesky":
        alpha, log_det, traces = _factored(H if H.xp is np else as_gram(H.dense()), Y, ridge, given)
    else:
        alpha, log_det, traces = _sampled(H, Y, ridge, given, checks.whole_number(probes, "probes", 2), tol, key)
    k = Y.shape[1]
    fit, complexity = -0.5 * float(np.sum(Y * alpha)), -0.5 * k * float(log_det.mean())
    pulls = {
        "ridge": float(np.sum(alpha**2)),
        **{name: float(np.sum(alpha * (dH @ alpha))) for name, dH in given.items()},
    }
    return Evidence(
        fit + complexity - 0.5 * H.n * k * float(np.log(2 * np.pi)),
        {name: 0.5 * pull - 0.5 * k * float(traces[name].mean()) for name, pull in pulls.items()},
        fit,
        complexity,
        0.5 * k * _error(log_det),
        {name: 0.5 * k * _error(draws) for name, draws in traces.items()},
        method,
    )


def _error(draws: np.ndarray) -> float:
    """Of the mean; one number is exact."""
    return float(draws.std(ddof=1) / len(draws) ** 0.5) if len(draws) > 1 else 0.0


def _factored(
    H: AbstractGram, Y: np.ndarray, ridge: float, given: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    made = factor(H, ridge)
    assert isinstance(made, Factor)  # of a matrix on the CPU
    traces = {"ridge": float(made.inverse_diagonal().sum())}
    if given:
        inverse = made.solve(np.eye(H.n))
        traces |= {
            name: float(np.sum(inverse * (dH.dense() if isinstance(dH, AbstractGram) else dH)))
            for name, dH in given.items()
        }
    return (
        made.solve(Y),
        np.array([made.log_determinant()]),
        {name: np.array([trace]) for name, trace in traces.items()},
    )


def _sampled(
    H: AbstractGram, Y: np.ndarray, ridge: float, given: Mapping[str, Any], probes: int, tol: float, key: int
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    Z = np.random.default_rng(key).choice([-1.0, 1.0], (H.n, probes))
    solved = solve(H, np.hstack([Y, Z]), ridge, tol=tol, bounds=None).values
    swept = quadrature(H, Z, tol=tol, ridge=ridge, bounds=None)
    with np.errstate(divide="ignore"):
        of_each = swept.bracket(lambda x: np.log(np.maximum(x, 0.0) + ridge)).per_output
    log_det = np.ravel(of_each.value)  # pyright: ignore[reportOptionalMemberAccess]
    alpha, of_probes = solved[:, : Y.shape[1]], solved[:, Y.shape[1] :]
    traces = {"ridge": np.einsum("np,np->p", Z, of_probes)}
    return alpha, log_det, traces | {name: np.einsum("np,np->p", of_probes, dH @ Z) for name, dH in given.items()}


@final
@dataclass(frozen=True, eq=False)
class FittedEvidence:
    """A kernel fitted by the evidence: `scale` times `kernel`, with noise of variance `ridge`.

    `posterior(op.gram(fitted.scale * fitted.kernel, X), y, …, ridge=fitted.ridge)` predicts with it; `parameters` are those of `kernel`.
    """

    kernel: AbstractKernel
    parameters: dict[str, float]
    scale: float
    ridge: float
    evidence: Evidence
    before: Evidence
    converged: bool


def fit_evidence(
    make: Callable[..., AbstractKernel],
    X: Any,
    y: Any,
    start: Mapping[str, float] | None = None,
    *,
    scale: float = 1.0,
    ridge: float = 0.1,
    get: str = "nngp",
    method: Method = "auto",
    probes: int = 32,
    most: int = 100,
    key: int = 0,
) -> FittedEvidence:
    """The kernel, its scale and the noise under which the labels have the largest evidence, by L-BFGS in logarithms.

    Derivatives by the kernel's parameters are those of `kernel.jax`, in float64, one matrix each. A large data set takes the same
    probes at every step, so that the search sees one function.

    Args:
        make: make(**parameters) gives the kernel, such as `functools.partial(op.kernels.FullyConnected, depth=3)`.
        X: training rows.
        y: labels, (n,) or (n, k).
        start: parameters > 0 to begin with and to fit, by name; none fits scale and noise alone.
        scale, ridge: to begin with.
        get: "nngp" or "ntk".
        method, probes, key: as in `evidence`.
        most: steps.

    >>> from overparam.kernels import FullyConnected
    >>> fitted = fit_evidence(lambda: FullyConnected(depth=1), np.eye(4), np.full(4, 2.0), ridge=1.0)
    >>> fitted.evidence.value > fitted.before.value
    True
    """
    import jax
    from scipy.optimize import minimize

    start = dict(start or {})
    kernel = make(**start)
    X = kernel.inputs(X)
    y = checks.targets(y, len(X))
    names = tuple(start)
    first = [checks.positive(value, name) for name, value in {**start, "scale": scale, "ridge": ridge}.items()]
    options: dict[str, Any] = {"method": method, "probes": probes, "key": key}

    def matrix(values: Any) -> Any:
        made = make(**dict(zip(names, values, strict=True)))
        return made.jax(X, None, get)

    with jax.enable_x64(True):
        value_of, slopes_of = jax.jit(matrix), jax.jit(jax.jacfwd(matrix))

    def at(logs: np.ndarray) -> tuple[Evidence, np.ndarray]:
        *parameters, factor_, noise = np.exp(logs)
        if names:
            with jax.enable_x64(True):
                H, slopes = np.asarray(value_of(np.array(parameters))), np.asarray(slopes_of(np.array(parameters)))
        else:
            H, slopes = kernel(X, get=get), np.zeros((*([len(X)] * 2), 0))
        given = {name: factor_ * slopes[..., place] for place, name in enumerate(names)} | {"scale": H}
        found = evidence(factor_ * H, y, noise, derivatives=given, **options)
        return found, np.array([found.gradient[name] for name in (*names, "scale", "ridge")]) * np.exp(logs)

    def objective(logs: np.ndarray) -> tuple[float, np.ndarray]:
        found, slope = at(logs)
        return -found.value, -slope

    begin = np.log(first)
    done = minimize(objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": most, "ftol": STOPS})
    *parameters, factor_, noise = (float(value) for value in np.exp(done.x))
    chosen = dict(zip(names, parameters, strict=True))
    return FittedEvidence(make(**chosen), chosen, factor_, noise, at(done.x)[0], at(begin)[0], bool(done.success))
