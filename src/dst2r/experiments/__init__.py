"""The paper's experiments as data (``settings``), run (``runner``), summarised (``results``) and told (``story``)."""

from dst2r.experiments.runner import run_experiment
from dst2r.experiments.settings import COMMANDS, Design, Experiment

__all__ = ["COMMANDS", "Design", "Experiment", "run_experiment"]
