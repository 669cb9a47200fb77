"""What one Krylov sweep tells of a matrix: certified quadratic forms, eigenvalue bounds, solves, leave-one-out."""

from overparam.spectrum.bounds import EigenvalueBounds, eigenvalue_bounds
from overparam.spectrum.brackets import Quadrature
from overparam.spectrum.cholesky import Factor, factor
from overparam.spectrum.eigenvectors import Eigenpairs, eigenpairs, power_iteration
from overparam.spectrum.integrands import AbstractIntegrand, Inverse, Loss
from overparam.spectrum.lanczos import Interrupted, MatrixFunction, matrix_function
from overparam.spectrum.left_out import LeaveOneOut, leave_one_out
from overparam.spectrum.left_out_groups import leave_groups_out
from overparam.spectrum.linear_systems import Solution, SolvePlan, solve, solve_plan
from overparam.spectrum.sweep import quadrature

__all__ = [
    "AbstractIntegrand",
    "Eigenpairs",
    "EigenvalueBounds",
    "Factor",
    "Interrupted",
    "Inverse",
    "LeaveOneOut",
    "Loss",
    "MatrixFunction",
    "Quadrature",
    "Solution",
    "SolvePlan",
    "eigenpairs",
    "eigenvalue_bounds",
    "factor",
    "leave_groups_out",
    "leave_one_out",
    "matrix_function",
    "power_iteration",
    "quadrature",
    "solve",
    "solve_plan",
]
