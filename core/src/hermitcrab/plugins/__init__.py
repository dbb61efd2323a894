"""Plugins: found as entry points, chosen by config, loaded one by one, and undone where they fail.

``discovery`` finds them, ``decide`` says which of them run, ``planning`` puts both together, ``loader`` loads one and
``host`` loads all.
"""
