"""Coded tables inside other people's systems: one module for each, which imports that system where it is used."""
