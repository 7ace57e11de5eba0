"""Plain torch modules: encoders and heads."""
