"""Headrace beside other ways to do the same work, on one real Kafka in one run: ``python -m benchmarks``.

A folder of the repository, not of the distribution. Every contender reads the same topic, computes the same
features, runs the same model and writes a prediction for every event; the answers are compared.
"""
