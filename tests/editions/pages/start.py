# ruff: noqa
# The Python blocks of docs/start.md, as the first edition had them.
import overparam as op

data = op.load("digits", classes=[0, 1])
analysis = op.analyze(data)
print(analysis)  # the verdict, in plain words
print(analysis.complexity)
analysis.save("first-look")
again = op.read("first-look")
assert again.verdict == analysis.verdict

import overparam as op

data = op.data.preprocess(op.load("digits", classes=[0, 1]), "unit")
assert data.n == 360

H = op.gram(op.kernels.TwoLayer(), data.X)
q = op.quadrature(H, data.y)
print(H.plan)
print(q)

complexity = op.label_complexity(q)
print(complexity.lower, complexity.value, complexity.upper)
assert complexity.certified
assert complexity.upper - complexity.lower < 1e-5 * complexity.value

rate = op.max_learning_rate(q).lower / 2
curve = op.predict_loss(q, steps=[0, 10, 100, 1000], lr=rate)
print(curve.values)
assert curve.stable
assert (curve.lower <= curve.values).all() and (curve.values <= curve.upper).all()
print(op.steps_to_loss(q, target=0.01, lr=rate).value)

print(op.max_learning_rate(q, loss="mse").value)

left_out = op.leave_one_out(H, data.y)
print(left_out.error)
assert left_out.error < 0.05

run = op.laziness(q, steps=1000, lr=rate, width=10_000, kappa=1.0)
print(run.value, run.regime)
assert run.regime == "lazy"

try:
    op.gram(op.kernels.TwoLayer(), [[1.0, 2.0], [0.0, 0.0]])
except ValueError as error:
    print(error)
