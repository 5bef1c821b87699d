"""``dst2r fit``: a model from data files, or from statistics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typer import BadParameter

from dst2r import DST2R, DST2RCV
from dst2r.cli.facts import model_facts, model_lines
from dst2r.cli.output import Voice, progress
from dst2r.cli.stats import load_parts
from dst2r.io import fetch, open_column
from dst2r.persistence import save
from dst2r.selection import N_L1

CRITERIA = ("bic", "aic", "ebic")


@dataclass(frozen=True)
class Plan:
    """What the options ask for.

    Attributes
    ----------
    rank : str
        "3", "1:8" or "1,2,4"; several are chosen from by cross-validation.
    l1 : str, optional
        A criterion or a number, for a single rank without cross-validation.
    l2 : str
        A number, or several to choose from by cross-validation.
    cv : int, optional
        Number of folds.
    rule : str, optional
    standardize : bool
    weights, groups : str, optional
        Specifications of arrays with one entry per sample.
    restarts : int
    seed : int, optional
    jobs : int, optional
    tol : float
    max_iter : int
    n_l1 : int, optional
        Penalties of a cross-validation, which there is if this is given.
    """

    rank: str = "1:5"
    l1: str | None = None
    l2: str = "0"
    cv: int | None = None
    rule: str | None = None
    standardize: bool = False
    weights: str | None = None
    groups: str | None = None
    restarts: int = 0
    seed: int | None = None
    jobs: int | None = None
    tol: float = 1e-5
    max_iter: int = 100
    n_l1: int | None = None

    @property
    def validated(self) -> bool:
        """Whether cross-validation chooses."""
        several = len(ranks(self.rank)) > 1 or len(numbers("--l2", self.l2)) > 1
        return several or self.cv is not None or self.n_l1 is not None

    def estimator(self) -> DST2R | DST2RCV:
        """The estimator with these parameters."""
        shared: dict[str, Any] = {
            "standardize": self.standardize,
            "n_restarts": self.restarts,
            "random_state": self.seed,
            "tol": self.tol,
            "max_iter": self.max_iter,
        }
        l2 = numbers("--l2", self.l2)
        if not self.validated:
            self._refuse("choose among models", ("--rule", self.rule), ("--jobs", self.jobs), ("--groups", self.groups))
            if self.seed is not None and not self.restarts:
                raise BadParameter("nothing is random here: add --restarts or --cv.", param_hint="--seed")
            return DST2R(ranks(self.rank)[0], l1=penalty(self.l1 or "bic"), l2=l2[0], **shared)
        if self.l1 is not None:
            raise BadParameter("cross-validation chooses the penalty: give one --rank and no --cv.", param_hint="--l1")
        return DST2RCV(
            ranks(self.rank),
            cv=self._splitter(),
            rule=self.rule or "min",
            l2=l2 if len(l2) > 1 else l2[0],
            n_l1=self.n_l1 or N_L1,
            n_jobs=self.jobs,
            **shared,
        )

    def _splitter(self) -> Any:
        from sklearn.model_selection import GroupKFold, KFold

        if self.groups is not None:
            return GroupKFold(self.cv or 5)
        if self.seed is not None:
            return KFold(self.cv or 5, shuffle=True, random_state=self.seed)
        return self.cv or 5

    def refuse_samples(self) -> None:
        """Raise if an option is about samples, which statistics do not hold."""
        for name, value in (("--weights", self.weights), ("--groups", self.groups), ("--cv", self.cv)):
            if value is not None:
                raise BadParameter("with --stats every file is a fold, and samples are not known.", param_hint=name)

    def _refuse(self, needed: str, *options: tuple[str, Any]) -> None:
        for name, value in options:
            if value is not None:
                raise BadParameter(f"there is nothing to {needed}: give several ranks, or --cv.", param_hint=name)


def run(data: list[str], plan: Plan, *, statistics: bool, mask: Path | None = None, out: Path, voice: Voice) -> None:
    """Fit, write the model, and tell what was found.

    Parameters
    ----------
    data : list of str
        Specifications of X and Y, or paths of statistics.
    plan : Plan
    statistics : bool
        Whether ``data`` names statistics.
    mask : Path, optional
        Of predictors that are images.
    out : Path
        Of the model, free to be written.
    voice : Voice
    """
    start = time.perf_counter()
    model = fitted(data, plan, voice, statistics=statistics, mask=mask)
    save(model, out, overwrite=True)
    facts = model_facts(model)
    for line in model_lines(facts):
        voice.tell(line)
    voice.result(out, facts | {"seconds": round(time.perf_counter() - start, 3)})


def fitted(data: list[str], plan: Plan, voice: Voice, *, statistics: bool, mask: Path | None = None) -> DST2R | DST2RCV:
    """Fit from what the arguments name."""
    return fit_statistics(data, plan, voice) if statistics else fit_arrays(data[0], data[1], plan, voice, mask)


def fit_arrays(x: str, y: str, plan: Plan, voice: Voice, mask: Path | None = None) -> DST2R | DST2RCV:
    """Fit from two specifications of arrays."""
    model = plan.estimator()
    options: dict[str, Any] = {}
    with progress("Reading", quiet=voice.quiet):
        X, Y = fetch(x, mask=mask), fetch(y)
        if plan.weights is not None:
            options["sample_weight"] = open_column(plan.weights)
        if plan.groups is not None:
            options["groups"] = open_column(plan.groups)
    for name, values in options.items():
        if np.shape(values) != (len(X),):
            raise ValueError(
                f"--{name.removeprefix('sample_').rstrip('s')}s has shape {np.shape(values)}; expected one entry for "
                f"each of the {len(X)} samples."
            )
    n_steps = (plan.cv or 5) * len(numbers("--l2", plan.l2)) if plan.validated else ranks(plan.rank)[0]
    with told(model, n_steps, voice):
        return model.fit(X, Y, **options)


def fit_statistics(paths: list[str], plan: Plan, voice: Voice) -> DST2R | DST2RCV:
    """Fit from files of statistics; with several ranks every file is a test fold once."""
    model = plan.estimator()
    plan.refuse_samples()
    if isinstance(model, DST2RCV) and len(paths) < 2:
        raise ValueError(
            "choosing among models takes two or more files of statistics, each of which is left out once: "
            "give more files, or one --rank and no --cv."
        )
    parts, labels = load_parts(paths)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    with told(model, len(parts), voice):
        if isinstance(model, DST2RCV):
            model.fit_statistics(parts)
        else:
            model.fit_statistics(total)
    model.labels_ = labels
    return model


@contextmanager
def told(model: DST2R | DST2RCV, n_steps: int, voice: Voice) -> Iterator[None]:
    """Progress that follows what the model says while it is fitted."""
    with progress("Fitting", quiet=voice.quiet or voice.verbose, total=n_steps) as step:
        if not voice.verbose:
            model._say = step  # type: ignore[assignment, method-assign]
        model.verbose = int(voice.verbose)
        try:
            yield
        finally:
            model.verbose = 0
            if not voice.verbose:
                del model._say


def ranks(text: str) -> tuple[int, ...]:
    """Ranks of "3", "1:8" or "1,2,4"."""
    try:
        if ":" in text:
            first, last = (int(part) for part in text.split(":"))
            found = tuple(range(first, last + 1))
        else:
            found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise BadParameter(f"{text!r} is no rank: write 3, 1:8 or 1,2,4.", param_hint="--rank")
    return found


def numbers(option: str, text: str) -> tuple[float, ...]:
    """Numbers of "0.1" or "0,0.1,1"."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise BadParameter(f"{text!r} is no number: write 0.1, or 0,0.1,1 to choose from.", param_hint=option) from None


def penalty(text: str) -> float | str:
    """A criterion, or a number."""
    if text in CRITERIA:
        return text
    try:
        return float(text)
    except ValueError:
        raise BadParameter(f"{text!r} is none of {', '.join(CRITERIA)} or a number.", param_hint="--l1") from None
