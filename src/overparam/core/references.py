"""The papers, and which of their statements the package implements: every `Ref:` in a docstring is listed here.

A `Ref:` line names a paper by its key and then labels: `Ref: fine_grained, Thm 4.1, Eq. (8)`. Several papers on
one line are parted by semicolons, and `Eq. (12), (13)` is short for `Eq. (12), Eq. (13)`. A test checks every
line against this registry and that nothing here is unused; `python docs/paper_index.py` writes the index of
statements, functions and tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KINDS = (
    "Sec.",
    "Thm",
    "Lemma",
    "Prop.",
    "Fact",
    "Cor",
    "Claim",
    "Def.",
    "Remark",
    "Example",
    "Eq.",
    "Alg.",
    "Fig.",
    "Table",
    "App.",
)
"""How the label of a statement opens, in the order of the index; `footnote` comes last."""


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

_STATEMENTS = {
    "fine_grained": {
        "Eq. (1)": "The initialisation: Gaussian weights of standard deviation κ, signs ±1 in the output layer.",
        "Eq. (2)": "The training loss: half the sum, not the mean, of squared residuals.",
        "Eq. (3)": "The Gram matrix H of the infinitely wide network, in closed form from the angles between rows.",
        "Thm 3.1": "Wide enough and with a small enough rate, the loss falls by the factor 1 − ηλ_0/2 at every step.",
        "Sec. 3.4": "The features Z and the Gram matrix H = ZᵀZ of a network of finite width.",
        "Eq. (5)": "The gradient of one neuron: the rows it is active on, weighted by their residuals.",
        "Eq. (6)": "A step of gradient descent: the features times the residuals.",
        "Eq. (7)": "Linear dynamics of the outputs: u(s+1) = u(s) − ηH(u(s) − y).",
        "Thm 4.1": "The real residual follows the linear dynamics at every step, within ε.",
        "Eq. (8)": "The norm of the residual after s steps, from the eigenvalues and the labels' projections.",
        "Fig. 1": "True, random and worst-case labels compared: loss curves, eigenvalues and projections.",
        "Fig. 2": "Test loss, test error and complexity as a growing share of labels is redrawn.",
        "Thm 5.1": "A bound on the loss on new data, known before training.",
        "Eq. (9)": "The bound: the complexity of the labels plus a term that falls like √(log(n/(λ_0δ))/n).",
        "Eq. (10)": "The complexity of the labels, √(2 yᵀH⁻¹y / n).",
        "Cor 5.2": "For labels ±1 the bound holds for the classification error.",
        "Lemma 5.3": "How far the weights move: each neuron little, all together about √(yᵀH⁻¹y).",
        "Eq. (11)": "Gradient descent on the linearised network; its movement ends at √(yᵀH(0)⁻¹y).",
        "Lemma 5.4": "The Rademacher complexity of networks whose weights moved little.",
        "Sec. 6": "Which functions are learnable, and that about (M_g + log(1/δ))/ε² samples are enough.",
        "Thm 6.1": "One power (β·x)^p, p = 1 or even, has √(yᵀH⁻¹y) ≤ 3p|α|‖β‖^p.",
        "Cor 6.2": "Sums of such powers are learnable: their bounds add.",
        "Eq. (12)": "The sums of powers of linear functions that the theory covers.",
        "Eq. (13)": "The bound on √(yᵀH⁻¹y) for such a sum.",
        "Example 6.1": "Linear functions.",
        "Example 6.2": "Quadratic functions.",
        "Example 6.3": "A cosine, less 1.",
        "Example 6.4": "z·arctan(z/2), an activation that is not so smooth.",
        "App. A": "The experiments: widths, rates, scales, and how labels are redrawn.",
        "Thm B.1": "Expected loss against training loss, by Rademacher complexity.",
        "Lemma C.1": "How far one neuron can move.",
        "Eq. (14)": "The residual falls by the factor 1 − ηλ_0/4 at every step.",
        "Lemma C.2": "How little the Gram matrix and the features of a finite network change while it is trained.",
        "Eq. (15)": "The neurons that a movement of size R can flip: pre-activations of at most R.",
        "Eq. (16)": "The Gram matrix changes by no more than these neurons allow.",
        "Eq. (17)": "The chance that a pre-activation is so small that a movement of size R can flip its sign.",
        "Lemma C.3": "The Gram matrix of a finite network at its first weights is near that of infinite width.",
        "Eq. (19)": "How many pairs of a neuron and a row can flip.",
        "Eq. (20)": "A step of the outputs, split into neurons that cannot flip and those that can.",
        "Eq. (21)": "What neurons that can flip add to a step.",
        "Eq. (22)": "What the others add: a step with the Gram matrix, but for a term.",
        "Eq. (23)": "That term: the part of the Gram matrix that belongs to neurons that can flip.",
        "Eq. (24)": "A step of the outputs is one with H(k), and an error.",
        "Eq. (25)": "A step of the outputs is one with H∞, and an error ζ(k).",
        "Eq. (26)": "The size of ζ(k).",
        "Eq. (27)": "The residual after k steps: labels, first outputs and errors, each carried by the linear dynamics.",
        "Eq. (28)": "The norm of the labels' part.",
        "Eq. (29)": "The first outputs' part: small where κ is.",
        "Eq. (30)": "The errors' part: small where m is large.",
        "Eq. (32)": "The residual as that of the linear dynamics and an error e(k).",
        "Eq. (33)": "The size of e(k).",
        "App. D.2": "Inside the proof of Lemma 5.4: a bound for all movements at once, given W(0) and the sample.",
        "App. D.3": "The proof of Thm 5.1: training loss, integer grid of radii, and how the failure is split.",
        "Eq. (34)": "The movement of all weights as a sum over steps.",
        "Eq. (35)": "What the drift of the features adds to the movement.",
        "Eq. (36)": "What the first outputs and the error of the dynamics add to the movement.",
        "Eq. (37)": "The movement of the linearised network, from H and a partial sum of powers.",
        "Eq. (38)": "The movement of the linearised network is at most √(yᵀH⁻¹y) and a finite-width term.",
        "App. E": "The power series of H in the cosine, whose coefficients are all ≥ 0.",
    },
    "convergence": {
        "Sec. 2": "The fully connected network, its signs and its gradient.",
        "Def. 2.3": "Its initialisation: variances 2/m in the hidden layers, 1/k in the output layer.",
        "Def. 2.5": "The backward matrices: the derivative of the output by what comes out of a layer.",
        "Fact 2.6": "The gradient of a layer: signs, backward matrix times loss vector, times what came in.",
        "Thm 1": "Gradient descent on a wide deep network reaches any loss at a linear rate.",
        "Thm 2": "So does mini-batch SGD, its gradient scaled by n/b.",
        "Lemma 7.1": "At random initialisation every layer keeps the norm of every sample.",
        "Lemma 7.3": "Products of consecutive layers at random initialisation lengthen no vector much, sparse ones least.",
        "Lemma 7.4": "What the output layer sees of a hidden layer at random initialisation.",
        "Lemma 7.5": "Samples that are apart stay apart in every layer, at random initialisation.",
        "Lemma 9.3": "The gradient for fixed loss vectors at random initialisation, from above and from below.",
        "Lemma 8.2": "Weights within ω of the start: how many signs change and how far hidden layers move.",
        "Lemma 8.6": "Products of layers stay as short at weights within ω of the start.",
        "Lemma 8.7": "How much the backward matrices change there.",
        "Thm 3": "Near the start the gradient is neither too large nor too small for the objective: no critical point.",
        "Remark 10.1": "The lower bound is on the gradient of the last hidden layer alone.",
        "Thm 4": "Near the start the objective is semi-smooth: two terms bound what a step adds beyond first order.",
        "Thm 5": "Near the start gradient, tangent kernel and linear approximation hardly change.",
        "Thm 6": "Other losses: how many steps by the class of the loss, and when every label is right.",
        "Thm 7": "The convolutional network reaches any loss at a linear rate.",
        "Thm 8": "So does the residual network, in O(n⁶L²/δ² log 1/ε) steps of GD, O(n⁷L² log²m/(bδ²) log 1/ε) of SGD.",
        "Eq. (12.2)": "The loss falls by the factor 1 − Ω(ηδm/(kn²)) at every step.",
        "Eq. (13.2)": "Under SGD it does so in expectation.",
        "App. A": "Losses that are gradient-dominant, convex, bounded, or cross-entropy: the proofs of their laws.",
        "App. B": "The convolutional network, every position with weights of its own.",
        "Eq. (B.1)": "Its samples stay apart, the parts of all positions summed.",
        "App. C": "The residual network.",
        "Eq. (C.1)": "Products of its layers have norm at most 1.01, by the choice of τ.",
        "Fig. 1": "The objective of VGG-19 on CIFAR-10 along its gradient and its most negative curvature.",
        "Fig. 2": "The same of ResNet-32.",
        "footnote 5": "Rows padded to unit norm with last coordinate 1/√2.",
        "footnote 16": "A constant cross-entropy is enough for every training label to be right.",
    },
    "beyond_two_layers": {
        "Sec. 2": "The losses it covers: convex, Lipschitz, with values in [0, 1].",
        "Eq. (3)": "The two-layer ground truth: smooth functions of one direction times linear ones of another.",
        "Eq. (4)": "Plain two-layer networks are a special case of it.",
        "Eq. (5)": "The two-layer learner with random biases.",
        "Alg. 1": "SGD on the two-layer learner, one sampled point a step, in increments of the weights.",
        "Eq. (6)": "The three-layer ground truth: products of sums of smooth functions, through a smooth outer function.",
        "Eq. (7)": "Plain three-layer networks are a special case of it.",
        "Eq. (8)": "Correlations of non-linear measurements are another.",
        "Eq. (9)": "The general three-layer ground truth: linear functions multiply the inner measurements.",
        "Eq. (10)": "The three-layer learner: its outputs.",
        "Eq. (11)": "Its first hidden layer, as a vector.",
        "Eq. (12)": "A neuron of its first hidden layer.",
        "Alg. 2": "SGD on the three-layer learner with smoothing noise, regularisers and a shrinking scale.",
        "Eq. (13)": "The objective of one step: the loss with noisy weights, and two regularisers.",
        "Eq. (14)": "The same with random signs on the increments of the neurons.",
        "Eq. (17)": "The complexity C(φ, R) of a smooth function.",
        "Eq. (18)": "The largest over the functions of a layer.",
        "Thm 4.1": "Two layers: Algorithm 1 learns with a number of samples that hardly depends on the width.",
        "Thm 4.2": "Three layers, first objective: Algorithm 2 learns with samples of the order of the width squared.",
        "Eq. (19)": "Correlations that three layers learn at the cost of each measurement.",
        "Thm 4.3": "Three layers, second objective: the samples needed hardly depend on the width.",
        "Lemma 5.1": "From indicators to functions: a weight on random half-spaces whose average is a smooth function.",
        "Eq. (21)": "What a neuron of the second layer sees at the start.",
        "Lemma 5.2": "Information out of randomness: that is a Gaussian times any smooth function, an independent part and a small rest.",
        "Eq. (22)": "The three parts.",
        "Lemma 5.3": "Away from the optimum the smoothed objective has a direction of descent, for the chosen parameters.",
        "Lemma 5.4": "Algorithm 2 converges: in every round a signed step or a smaller scale lowers the smoothed objective.",
        "Eq. (25)": "Radii of the increments and weights of the regularisers.",
        "Eq. (26)": "Sizes of the smoothing noise.",
        "Eq. (27)": "Equal widths, the inner accuracy, and the size of the output weights.",
        "Eq. (30)": "The descent test: a signed step or a smaller scale lowers the smoothed objective.",
        "Eq. (33)": "The pseudo network of three layers: weights move, signs are held.",
        "Eq. (34)": "The same without the second bias.",
        "Eq. (35)": "The same without both biases.",
        "Lemma 5.5": "Coupling: how few signs change, and that cross terms vanish, for increments within the radii.",
        "Lemma 5.6": "Three layers: near random weights there is a pseudo network that is the target, built.",
        "Eq. (39)": "The width at which it is that to ε.",
        "Eq. (40)": "How long the rows of its W* and V* are.",
        "Eq. (41)": "The complexity in that.",
        "Eq. (42)": "Its mean error.",
        "Eq. (43)": "Its loss.",
        "Eq. (44)": "A small update with smoothing noise, signs after it.",
        "Eq. (45)": "The same with the signs before it.",
        "Lemma 5.7": "With smoothing noise the two differ by a second-order term on average.",
        "Lemma 5.8": "With random signs on the increments the network is its start plus a bilinear term, nearly.",
        "Eq. (48)": "How nearly.",
        "Lemma A.4": "Sets of one chance under a Gaussian, with signs of any mean in [−1, 1].",
        "Eq. (197)": "Chunks of the first layer, some for each function.",
        "Eq. (234)": "V* of the three-layer pseudo network.",
        "Eq. (235)": "Its W*.",
        "Lemma 5.9": "The Rademacher complexity of three layers within radii, signs on the increments averaged.",
        "Lemma A.8": "A random step that lowers a function on average: its gradient is large or its Hessian has a negative eigenvalue.",
        "Eq. (340)": "How much a signed step raises the regularisers.",
        "Eq. (341)": "How far the network is from the pseudo network after it.",
        "Eq. (346)": "What its terms of order √η cost by the curvature of the loss.",
        "Eq. (352)": "The loss at a larger and at a smaller scale.",
        "Eq. (360)": "The three objectives in one inequality.",
        "Eq. (365)": "The signed step lowers the objective.",
        "Eq. (366)": "The smaller scale does.",
        "Eq. (254)": "How many signs of the first layer the smoothing noise turns.",
        "Claim B.1": "Powers of x as averages of Hermite polynomials over half-spaces.",
        "Eq. (115)": "The weight h, a clipped sum of Hermite polynomials.",
        "Eq. (403)": "The pseudo network: the signs stay those of the initial weights.",
        "Lemma G.1": "Two layers: near random weights there is a pseudo network that is the target, built.",
        "Eq. (410)": "Its weights, for one function.",
        "Eq. (414)": "For a sum of functions.",
        "Eq. (415)": "For several outputs.",
        "Lemma G.3": "Two layers: while neurons move little, few signs turn and the pseudo network is near.",
        "Lemma G.4": "Algorithm 1 converges: the pseudo network's loss is convex, and the gradients are near.",
        "Eq. (422)": "How much better than it another pseudo network is.",
        "Eq. (428)": "That is at most a coupling, a fall of distance and a gradient.",
        "Eq. (430)": "The gradient.",
        "Eq. (431)": "The same over all steps.",
        "Lemma G.5": "The Rademacher complexity of two layers within a radius for each neuron.",
        "footnote 1": "Rows padded to unit norm with last coordinate ½.",
    },
    "beyond_kernels": {
        "Eq. (2.1)": "The three-layer ResNet with one skip.",
        "Eq. (2.2)": "The targets: a base signal F and a smaller one composed with it, F + αG(F).",
        "Eq. (3.1)": "Kernel ridge regression, its squares averaged over the samples.",
        "Sec. 4": "The complexities C_ε and C_s of a smooth function.",
        "Sec. 5": "The concept class, OPT, and bounds on F, on G(F) and on the slope of G.",
        "Eq. (5.1)": "Concept 1: H = F + αG(F).",
        "Eq. (5.2)": "Its F and G: sums of smooth functions of linear ones, in every output.",
        "Sec. 6": "The same with biases in the weights and U = VA.",
        "Table 1": "How large the initial weights of the ResNet are.",
        "Alg. 1": "SGD with fresh samples, one a step, and a rate for each layer.",
        "Thm 2": "A law on the cube where no correlation kernel learns the composed part from few samples.",
        "Thm 1": "The ResNet learns F + αG(F) to an error of order α⁴: samples, rates and width.",
        "Eq. (6.2)": "Its error and samples under Concept 1.",
        "Cor 7.1": "Theorem 2's targets are learned by the ResNet from about d/α⁸ samples.",
        "Lemma D.1": "Coupling of the ResNet: few signs turn, and what the initial weights give is negligible.",
        "Lemma D.2": "Near the initial weights there are W* and V* that are F and αG by the first signs.",
        "Lemma D.3": "They are F and αG by the signs of any weights near the start too.",
        "Fact D.4": "The gradient's product with a direction, as two sums over the neurons that are on.",
        "Claim D.5": "The gradients of W and of V are at most the residual, times 1 + σ_v and 1 + τ_w.",
        "Claim D.6": "The gradient's product with the way to W* and V* is that of the residual with itself, and an error.",
        "Claim D.7": "Where the output is near H, the first layer's is near F.",
        "Eq. (D.3)": "The region in which the run stays.",
        "Eq. (D.4)": "The telescoped sum: mean error and distance to W* and V* after any number of steps.",
        "Lemma F.1": "Near random weights without bias there is a pseudo network that is the target, built.",
        "Lemma F.2": "From indicators to functions without bias: odd powers and the constant.",
        "Eq. (F.2)": "The weights of that network, for one function.",
        "Eq. (F.3)": "For several functions and outputs.",
        "App. A": "The experiments: networks compared, initialisation, training.",
        "Fig. 2": "Networks and kernels on parities of parities, against the number of samples.",
        "Fig. 3": "Error and norm of what SGD finds, beside networks made by hand.",
        "App. A.1": "Two-layer networks of small norm exist for a product of six coordinates; SGD does not find them.",
        "Def. B.1": "General complexity: no unit norms, and functions without even powers.",
        "Eq. (B.1)": "Concept 2: H = F + αG(F) with F and G of general complexity.",
        "Lemma B.2": "Concept 1 is a case of Concept 2 with twice the terms.",
        "Prop. E.1": "A correlation kernel on the cube is a sum over products of coordinates.",
        "Lemma E.2": "A function near the target has a large norm in the kernel's space, by the eigenvalue of the product.",
        "Lemma E.3": "Few samples can be fitted by a function of small norm, with the constants of Theorem 2's proof.",
        "App. E.4": "Theorem 2's target as a member of Concept 1: a product as a sum of powers.",
    },
}

STATEMENTS = {(paper, label): words for paper, own in _STATEMENTS.items() for label, words in own.items()}
"""Every statement implemented, by (paper key, label)."""


def parse_reference(line: str) -> list[tuple[str, str]]:
    """The (paper key, label) pairs of what follows `Ref:`; a ValueError says what is malformed.

    >>> parse_reference("fine_grained, Cor 6.2, Eq. (12), (13)")
    [('fine_grained', 'Cor 6.2'), ('fine_grained', 'Eq. (12)'), ('fine_grained', 'Eq. (13)')]
    """
    pairs: list[tuple[str, str]] = []
    for part in line.strip().split(";"):
        key, *labels = [piece.strip() for piece in part.split(",")]
        if key not in PAPERS:
            raise ValueError(f"{key!r} is no paper; expected one of {', '.join(PAPERS)}")
        if not labels:
            raise ValueError(f"{part.strip()!r} names no statement; expected such as '{key}, Thm 4.1'")
        previous = ""
        for label in labels:
            if re.fullmatch(r"\([0-9.]+\)", label) and previous.startswith("Eq."):
                label = f"Eq. {label}"
            if not is_label(label):
                raise ValueError(f"{label!r} is no label; expected one like 'Thm 4.1', 'Eq. (8)' or 'App. A'")
            pairs.append((key, label))
            previous = label
    return pairs


def is_label(text: str) -> bool:
    """Whether `text` is a label as a `Ref:` line writes it.

    >>> is_label("Lemma C.1"), is_label("Eq. 8"), is_label("Theorem 4.1")
    (True, False, False)
    """
    number = r"[A-Z]?\.?[0-9]+(\.[0-9]+)*[a-d]?"
    patterns = {
        "Eq.": r"\([0-9A-Z.]+\)",
        "App.": r"[A-Z](\.[0-9]+)*",
        "Fig.": r"[0-9]+",
        "Table": r"[0-9]+",
        "footnote": r"[0-9]+",
    }
    kind, _, rest = text.partition(" ")
    if kind not in (*KINDS, "footnote"):
        return False
    return re.fullmatch(patterns.get(kind, number), rest) is not None


def anchor(paper: str, label: str) -> str:
    """Where docs/paper_index.md has a statement.

    >>> anchor("fine_grained", "Eq. (8)")
    'fine_grained-eq-8'
    """
    return f"{paper}-" + re.sub(r"[^0-9a-z]+", "-", label.lower()).strip("-")
