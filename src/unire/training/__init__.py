"""Training: tables, distillation, encoder adaptation and marker models."""
