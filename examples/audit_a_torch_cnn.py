"""What the theory of wide networks says of a small PyTorch CNN with batch norm, measured on it.

python examples/audit_a_torch_cnn.py [FOLDER]: with a folder it writes the result and a page, report.html.
"""

import sys

import torch
from torch import nn

import overparam as op

torch.manual_seed(0)  # PyTorch draws the weights
data = op.data.preprocess(op.load("digits", train=40), "unit")
low = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(4, 8, 3), nn.ReLU()]
cnn = op.from_torch(nn.Sequential(*low, nn.Flatten(), nn.Linear(32, 10)), data.X[:1].reshape(1, 1, 8, 8))
audit = op.audit(cnn, data, effort="quick")
print(*audit.verdict.sentences, sep="\n")
if len(sys.argv) > 1:
    audit.save(sys.argv[1])
