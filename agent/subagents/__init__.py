"""Subagents from both sides: what a parent does for its children, and what a child reports."""
