"""The console: one page that shows people what a live learner does, and how well."""
