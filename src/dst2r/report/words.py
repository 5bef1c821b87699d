"""What a report says in words: summary, choice, warnings with their remedies, glossary. Plain text, not yet HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dst2r.cp import max_rank
from dst2r.report.evidence import Axis, Choice, Position, Quality, reported

FEW_SAMPLES = 30
FEW_PER_NUMBER = 10  # observed response values for each number of the model
ALIKE = 0.9  # cosine from which two components are hard to tell apart
MUCH_LESS = 0.2  # of the variation explained, on other data than those of the fit
USELESS = -0.05  # R² below this is worse than the mean by more than chance and rounding


@dataclass(frozen=True)
class Remark:
    """Something that a reader must know, and what can be done about it."""

    title: str
    text: str
    remedy: str


def count(number: float, noun: str = "", plural: str = "") -> str:
    """1,080 numbers; 1 number."""
    text = f"{number:,.0f}" if abs(number - round(number)) < 0.05 else f"{number:,.1f}"
    return f"{text} {noun if text == '1' else plural or noun + 's'}" if noun else text


def short(value: float) -> str:
    """Three digits, as in tables."""
    return f"{value:.3g}".replace("-", "−")


def decimals(value: float) -> str:
    """Two decimals."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")  # + 0.0: never "-0.00"


def percent(share: float) -> str:
    """Share as a percentage, with a digit more where 100 or 0 would overstate it."""
    digits = 1 if share > 0.985 or abs(share) < 0.1 else 0
    return f"{100 * share:.{digits}f} %".replace("-", "−")


def explains(share: float) -> str:
    """What predictions do, as the end of a sentence."""
    if share < 0:
        return f"do worse than its mean would: they “explain” {percent(share)} of its variation"
    return f"explain {percent(share)} of its variation"


def extent(axes: Sequence[Axis]) -> str:
    """6 antigen × 5 receptor; sizes only where modes have no names of their own."""
    own = [axis for axis in axes if axis.name != f"{axis.side} mode {axes.index(axis) + 1}"]
    if not own:
        return "\u00a0×\u00a0".join(f"{len(axis)}" for axis in axes) or "one number"
    return " × ".join(f"{len(axis)} {axis.name}" for axis in axes)


def title(axes: Sequence[Axis]) -> str:
    """What is predicted from what."""
    sides = []
    for side in ("Y", "X"):
        modes = [axis for axis in axes if axis.side == side]
        plain = all(axis.name.startswith(f"{side} mode ") for axis in modes)
        names = " × ".join(axis.name for axis in modes)
        sides.append("one number" if not modes else f"{side} ({extent(modes)})" if plain else names)
    return f"Predicting {sides[0]} from {sides[1]}"


def summary(model: Any, axes: Sequence[Axis], own: Position, quality: Quality | None) -> list[str]:
    """The whole report in two paragraphs."""
    x, y = ([axis for axis in axes if axis.side == side] for side in ("X", "Y"))
    n_weights, response = model.coef_.size, f": {extent(y)}" if y else ""
    first = (
        f"Each of {count(model.n_samples_)} samples holds {_thing(x)} (the predictor X: {extent(x)}) and "
        f"{_thing(y)} (the response Y{response}). The model predicts {'every entry of ' if y else ''}Y as a "
        f"weighted sum of the entries of X{', plus a constant' if model.fit_intercept else ''}."
    )
    if model.rank_ == 0:
        second = "No pattern in X that predicts Y was found: the model predicts the mean of Y for every sample."
        if math.isnan(own.explained):
            second += f" {fit_sentence(own)}"
    else:
        patterns = (
            "one simple pattern, a component" if model.rank_ == 1 else f"{model.rank_} simple patterns, the components"
        )
        second = (
            f"There are {count(n_weights)} such weights. They are built from {patterns}, "
            f"which takes {count(model.n_parameters_, 'number')}. {fit_sentence(own)}"
        )
    if quality is not None and not quality.training:
        second += f" On {count(quality.n, 'sample')} of other data its predictions of Y {explains(quality.pooled)}."
    return [first, second]


def fit_sentence(own: Position) -> str:
    """How much of the response the reported model explains."""
    if math.isnan(own.explained):
        return "The response does not vary."
    return f"On the data of the fit, it explains {percent(own.explained)} of the variation of Y."


def _thing(axes: Sequence[Axis]) -> str:
    return (
        ("one number", "a row of numbers", "a table")[len(axes)]
        if len(axes) < 3
        else f"an array with {len(axes)} modes"
    )


def how_chosen(model: Any, choice: Choice | None) -> list[str]:
    """How rank and penalty were chosen."""
    if choice is not None:
        return _by_cross_validation(model, choice)
    texts = [f"The rank, {model.rank}, was given by the analyst and not chosen from the data."]
    if not isinstance(model.l1, str):
        return [*texts, f"So was the penalty, l1 = {short(model.l1)}."]
    name = model.l1.upper()
    texts.append(
        f"The penalty was chosen from the data by the {name}, which adds to the misfit a price for every number that "
        f"the model uses; the lowest value wins, here at l1 = {short(model.l1_)}."
    )
    if model.path_ is not None and model.relax:
        before = int(model.path_.n_parameters[model.path_.chosen])
        texts.append(
            f"From there ({count(before, 'number')}), single numbers and components were dropped or admitted as long "
            f"as that lowered the {name}; {count(model.n_parameters_)} remained."
        )
    return texts


def _by_cross_validation(model: Any, choice: Choice) -> list[str]:
    surface, least, within = choice.surface, choice.least, choice.within
    folds, n_ranks, n_l1 = surface.loss.shape
    tried = f"{count(n_ranks, 'rank')} and {count(n_l1, 'penalty', 'penalties')}"
    texts = [
        "Rank and penalty were chosen by cross-validation: the data were split in "
        f"{count(folds, 'way')} (folds) into a part to fit and a part to test, and {tried} were tried on each. "
        "The test loss is the error on samples that the fit had not seen; lower is better.",
        f"The lowest mean test loss, {short(choice.mean[least])}, is at {_point(choice, least)}.",
    ]
    if folds > 1:
        texts.append(
            "The smallest model that is no more than one standard error worse is "
            + ("the same one." if within == least else f"at {_point(choice, within)}.")
        )
    rule = "lowest loss" if model.rule == "min" else "smallest model within one standard error"
    texts.append(f"The rule that was asked for takes the {rule}, and the model was then fitted to all samples.")
    if model.rule == "min" and within != least and choice.numbers(within) < 0.7 * choice.numbers(least):
        texts.append(
            "The two differ by little in loss and by much in size, so the data do not settle the exact choice; "
            "rule='1se' takes the smaller one."
        )
    if len(model.cv_results_["l2"]) > 1:
        ridges = ", ".join(short(l2) for l2 in model.cv_results_["l2"])
        texts.append(f"The ridge l2 = {short(model.l2_)} was chosen in the same way from {ridges}.")
    return texts


def _point(choice: Choice, point: tuple[int, int]) -> str:
    numbers = count(choice.numbers(point), "number")
    return f"rank {choice.rank(point)}, l1 = {short(choice.l1(point))} ({numbers} on average)"


def remarks(
    model: Any, axes: Sequence[Axis], positions: Sequence[Position], choice: Choice | None, quality: Quality | None
) -> list[Remark]:
    """Everything that should make a reader careful."""
    found = [*_of_fit(model), *_of_components(model), *_of_size(model, axes)]
    if choice is not None:
        found += _of_choice(model, choice)
    elif isinstance(model.l1, str):
        found += _of_criterion(model, positions)
    if quality is not None:
        found += _of_quality(quality, positions[reported(positions)])
    return found


def _of_fit(model: Any) -> list[Remark]:
    found = []
    if not model.converged_:
        found.append(
            Remark(
                "The fit stopped before it had settled",
                f"The last correction ended after max_iter={model.max_iter} steps without reaching tol={model.tol:g}. "
                "Weights may still move in their last digits, or by more where predictors are nearly interchangeable.",
                "Raise max_iter or tol, lower the rank, or add a ridge (l2).",
            )
        )
    if model.rank_ == 0:
        found.append(
            Remark(
                "The model is empty",
                "No component survived: the data do not show that X predicts Y linearly.",
                "Check that the samples of X and Y are in the same order; get more samples, or try a smaller l1.",
            )
        )
    asked = getattr(model, "rank", None)
    if asked is not None and 0 < model.rank_ < asked:
        found.append(
            Remark(
                f"{asked} components were asked for, {model.rank_} {'was' if model.rank_ == 1 else 'were'} kept",
                "The others did not pay for the numbers that they need.",
                "Nothing has to be done; if a weak component matters, get more samples or try a smaller l1.",
            )
        )
    return found


def _of_components(model: Any) -> list[Remark]:
    """Pairs that point the same or the opposite way in every mode."""
    likeness = np.prod([factor.T @ factor for factor in model.cp_.factors], axis=0)
    found = []
    for r, s in zip(*np.nonzero(np.triu(np.abs(likeness) > ALIKE, 1)), strict=True):
        opposite = likeness[r, s] < 0
        found.append(
            Remark(
                f"Components {r + 1} and {s + 1} nearly {'cancel' if opposite else 'repeat'} each other",
                f"They point {'opposite ways' if opposite else 'the same way'} in almost every entry (cosine "
                f"{decimals(likeness[r, s])}), so only their sum has a meaning.",
                "Read the two together; a lower rank, or more ridge (l2), separates them.",
            )
        )
    return found


def _of_size(model: Any, axes: Sequence[Axis]) -> list[Remark]:
    n, n_y = model.n_samples_, math.prod(len(axis) for axis in axes if axis.side == "Y")
    smaller = "rule='1se'" if hasattr(model, "cv_results_") else "a choice by cross-validation (DST2RCV)"
    per_number = n * n_y / max(model.n_parameters_, 1)
    if n >= FEW_SAMPLES and per_number >= FEW_PER_NUMBER:
        return []
    facts = f"{count(n, 'sample')}, {per_number:.2g} observed response values for each number of the model"
    return [
        Remark(
            "There are few samples",
            f"The model rests on {facts}. Components, and which of their entries are zero, may change with a few more.",
            f"Trust predictions on new samples only; prefer a smaller rank, {smaller} or a larger l1.",
        )
    ]


def _of_choice(model: Any, choice: Choice) -> list[Remark]:
    found, ranks = [], choice.surface.ranks
    folds, _, n_l1 = choice.surface.loss.shape
    if len(ranks) > 1 and choice.least[0] == len(ranks) - 1 and ranks[-1] < max_rank(model.coef_.shape):
        was = "was chosen" if choice.chosen[0] == choice.least[0] else "has the lowest test loss"
        found.append(
            Remark(
                f"The largest rank that was tried {was}",
                f"The test loss was still falling at rank {ranks[-1]}; a larger rank may predict better.",
                f"Try more ranks, for instance ranks=range(1, {2 * int(ranks[-1]) + 1}).",
            )
        )
    if n_l1 > 1 and choice.chosen[1] == 0 and choice.surface.l1[0] > 0:
        found.append(
            Remark(
                "The smallest penalty that was tried was chosen",
                "The data are too few for a fit without penalty, so the grid begins above zero; an even smaller "
                "penalty might predict better.",
                "Add a ridge (l2), which lets the grid begin at zero, or get more samples.",
            )
        )
    ridges = np.atleast_1d(model.cv_results_["l2"])
    if ridges.size > 1 and model.l2_ in (ridges.min(), ridges.max()) and model.l2_ > 0:
        found.append(
            Remark(
                "The ridge lies at the edge of those tried",
                f"l2 = {short(model.l2_)} was the {'largest' if model.l2_ == ridges.max() else 'smallest'} candidate.",
                "Extend the list of l2 beyond it.",
            )
        )
    if folds < 3:
        found.append(
            Remark(
                f"The cross-validation had only {count(folds, 'fold')}",
                "Standard errors over so few folds mean little.",
                "Use five folds or more.",
            )
        )
    return found


def _of_criterion(model: Any, positions: Sequence[Position]) -> list[Remark]:
    found = []
    n, n_x = model.n_samples_, math.prod(model.coef_.shape[: model.coef_.ndim - model.intercept_.ndim])
    if n_x > n and model.l1 != "ebic" and model.rank_:
        found.append(
            Remark(
                "There are more predictor entries than samples",
                f"The {model.l1.upper()} prices the numbers of the model, but hardly that they were sought among "
                f"{count(n_x)} entries in {count(n, 'sample')}: some of the entries that were found may be chance.",
                "Test on other data; compare l1='ebic', which prices the search, and cross-validation (DST2RCV).",
            )
        )
    known = [position for position in positions if math.isfinite(position.criterion)]
    at = next((t for t, position in enumerate(known) if position.reported), None)
    if at != 0 or known[0].l1 == 0 or len(known) < 3:
        return found
    return [
        *found,
        Remark(
            "The smallest penalty of the path was chosen",
            f"The {model.l1.upper()} was still falling where the path ends; an even smaller penalty might fit better.",
            "Add a ridge (l2), which lets the path begin at zero, get more samples, or give l1 as a number.",
        ),
    ]


def _of_quality(quality: Quality, own: Position) -> list[Remark]:
    found = []
    if not quality.training and own.explained - quality.pooled > MUCH_LESS:
        found.append(
            Remark(
                "The model does much worse on other data than on its own",
                f"It explains {percent(own.explained)} of the variation of Y on the data of the fit and "
                f"{percent(quality.pooled)} on the other data: part of what it found is chance, or the data differ.",
                "Judge the model by the other data; get more samples, take a smaller rank or a larger penalty, and "
                "check that both were measured and scaled alike.",
            )
        )
    if quality.training:
        found.append(
            Remark(
                "The quality shown is that on the data of the fit",
                "A fit looks better on its own data than on new samples.",
                "Make the report with data that were not used for the fit.",
            )
        )
    bad, known = int(np.sum(quality.r2 < USELESS)), int(np.isfinite(quality.r2).sum())
    if bad:
        of = f"{count(bad)} of {count(known, 'response entry', 'response entries')}"
        found.append(
            Remark(
                f"{of} {'is' if bad == 1 else 'are'} predicted worse than by the mean",
                f"Their R² is below {decimals(USELESS)}: for them the model is of no use on these data.",
                "Do not use those predictions; see the list of the worst entries below.",
            )
        )
    return found


def glossary(model: Any, choice: Choice | None) -> list[tuple[str, str]]:
    """The words that the report uses."""
    words = [
        ("Sample", "One observation, with its predictor X and its response Y: a patient, a scan, a day."),
        (
            "Mode and entry",
            "A mode is a direction of a table or array, such as rows, columns or time; entries are its places.",
        ),
        (
            "Component",
            "A simple pattern: one list of values for every mode. What it adds to a weight of the model is the product "
            "of one value from each list. Two minus signs cancel: only the product has a meaning.",
        ),
        ("Weight of a component", "Its overall size. The lists themselves are scaled to length one."),
        ("Rank", "The number of components."),
        ("Zero", "An entry that the model does not use at all in that component. Zeros are exact, not just small."),
        (
            "Penalty, l1",
            "The price of size: the larger it is, the more entries are exactly zero, and the simpler is the model.",
        ),
        ("Path", "The models from no penalty to one so large that nothing is left."),
        (
            "Numbers",
            "Values that the model is free to set: entries that are not zero, less the scales that lists share.",
        ),
        ("Loss", "Half the squared error of a sample, averaged over samples and summed over the response."),
        (
            "R², variation explained",
            "1 is perfect; 0 is no better than always predicting the mean; below 0 is worse than that.",
        ),
    ]
    if np.any(getattr(model, "l2_", model.l2)):
        words.append(
            ("Ridge, l2", "Shrinks all weights a little, which steadies them where predictors resemble each other.")
        )
    if choice is not None:
        words.append(("Cross-validation", "Fit on a part of the samples, test on the rest, in turns."))
        words.append(
            (
                "Standard error",
                "How uncertain a mean over folds is: here of the difference to the best model, fold by fold, since all "
                "models find some folds harder than others; at most that of the best model's own loss.",
            )
        )
    elif isinstance(model.l1, str):
        words.append(
            (model.l1.upper(), "An information criterion: misfit plus a price for every number. Lower is better.")
        )
    return words
