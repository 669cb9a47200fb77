"""`op.analyze` on one data set from files, in a fresh process, compilation included; also keeps the result folder.

python benchmarks/analysis.py mnist OUT [gpu]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from record import processor, save


def main(name: str, out: str, device: str | None = None) -> None:
    start = time.perf_counter()
    import overparam as op
    from overparam.core import folder

    result = op.analyze(name, device=device)
    seconds = time.perf_counter() - start
    folder.write(result.parts(), Path(out) / name.replace("/", "-"))
    again = time.perf_counter()
    op.analyze(name, device=device)
    row = {
        "what": f"{name}, n = {result.n:,}, from files, compilation and imports included",
        "seconds": round(seconds, 1),
        "second time s": round(time.perf_counter() - again, 1),
        "device": result.provenance.device,
        "process peak MB": round((result.provenance.peak_memory or 0) / 1e6),
        "left-out error": f"{result.learnability.left_out_error:.2%}",
        "test error": f"{result.new_data.test_error or 0:.2%}",
        "complexity": round(result.complexity.value, 4),
    }
    print(result)
    save("analysis", processor(), [row], "", Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
