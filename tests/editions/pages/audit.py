# ruff: noqa
# The Python blocks of docs/audit.md, as the first edition had them.
import overparam as op

found = op.audit(op.networks.FullyConnected(width=64, depth=3, outputs=10), op.load("digits", train=50), effort="quick")
print(found.verdict.sentences[0])
found.find("forward norms")[0].verdict  # one law
found.to_rows()  # all of them, as a table
