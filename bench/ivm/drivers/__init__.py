"""Drivers of engines. Each is a program; README.md describes what it reads and writes."""
