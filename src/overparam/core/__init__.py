"""What every room shares: checks, kernels as an interface, results, page sections, references, progress."""

from overparam.core.interruption import Interrupted as Interrupted
