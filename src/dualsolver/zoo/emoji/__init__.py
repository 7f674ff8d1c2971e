"""Captioned emoji: the data, and the models that are trained on it."""
