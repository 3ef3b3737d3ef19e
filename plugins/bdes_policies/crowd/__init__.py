"""Policies for many users."""
