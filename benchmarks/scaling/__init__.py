"""How the engine's cost and memory grow: ``python -m benchmarks.scaling``; no broker.

Costs are CPU time of the thread inside `PartitionState.process`, over slices of columns made beforehand. Variants run
in turn within a repetition, and ratios are medians of the quotients within one.
"""
