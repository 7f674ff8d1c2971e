"""Networks to sample from: `toy` has exact answers, the others wrap diffusers models."""
