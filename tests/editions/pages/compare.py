# ruff: noqa
# The Python block of docs/compare.md, as the first edition had it, on a small table; width and steps are given, so that
# nothing depends on the speed of the machine.
import overparam as op

data = op.load("wine")
found = op.compare(data, seeds=2, sizes=[40, 80, 120], width=40, steps=100)
found.answer
found.gaps[-1]
found.crossing
found.save("out/")
