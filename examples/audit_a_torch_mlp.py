"""What the theory of wide networks says of a PyTorch MLP, measured on it.

python examples/audit_a_torch_mlp.py [FOLDER]: with a folder it writes the result and a page, report.html.
"""

import sys

import torch
from torch import nn

import overparam as op

torch.manual_seed(0)  # PyTorch draws the weights
data = op.data.preprocess(op.load("digits", train=40), "unit")
hidden = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()]
audit = op.audit(op.from_torch(nn.Sequential(*hidden, nn.Linear(64, 10)), data.X[:1]), data, effort="quick")
print(*audit.verdict.sentences, sep="\n")
if len(sys.argv) > 1:
    audit.save(sys.argv[1])
