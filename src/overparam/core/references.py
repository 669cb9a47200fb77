"""The papers, and which of their statements the package implements: every `Ref:` in a docstring is listed here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """One source paper; `key` is what a `Ref:` line opens with."""

    key: str
    authors: str
    year: int
    title: str
    arxiv: str


PAPERS = {
    paper.key: paper
    for paper in (
        Paper(
            "fine_grained",
            "Arora, Du, Hu, Li, Wang",
            2019,
            "Fine-Grained Analysis of Optimization and Generalization for Overparameterized Two-Layer Neural Networks",
            "1901.08584",
        ),
        Paper(
            "convergence",
            "Allen-Zhu, Li, Song",
            2018,
            "A Convergence Theory for Deep Learning via Over-Parameterization",
            "1811.03962",
        ),
        Paper(
            "beyond_two_layers",
            "Allen-Zhu, Li, Liang",
            2018,
            "Learning and Generalization in Overparameterized Neural Networks, Going Beyond Two Layers",
            "1811.04918",
        ),
        Paper(
            "beyond_kernels",
            "Allen-Zhu, Li",
            2019,
            "What Can ResNet Learn Efficiently, Going Beyond Kernels?",
            "1905.10337",
        ),
    )
}
