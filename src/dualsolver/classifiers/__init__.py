"""Classifiers and feature distances that solvers are learned through: frozen, differentiable, by name."""

from .classifier import Classifier, state_hash
from .distances import Distance, Perceptual, feature_distance, perceptual
from .load import load_classifier
from .paper import PAPER, PaperClassifier, paper_classifiers
from .preprocess import Preprocess, straight_through_clamp

__all__ = [
    "PAPER",
    "Classifier",
    "Distance",
    "PaperClassifier",
    "Perceptual",
    "Preprocess",
    "feature_distance",
    "load_classifier",
    "paper_classifiers",
    "perceptual",
    "state_hash",
    "straight_through_clamp",
]
