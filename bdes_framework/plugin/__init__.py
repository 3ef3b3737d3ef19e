"""Plugins: hook specs, discovery, registration, and building things by name."""
