"""Learned few-step sampling for any pretrained diffusion or flow-matching model."""

__version__ = "0.1.0"
