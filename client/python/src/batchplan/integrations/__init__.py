"""Planners for trainers that have one: the interface they know, batchplan's plans, the budget kept.

None of these modules imports the trainer that it is for, nor torch, until it is used.
"""
