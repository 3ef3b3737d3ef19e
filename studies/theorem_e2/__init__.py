"""Theorem E.2 case by case: ``unknown-lambda`` where each of its cases applies."""
