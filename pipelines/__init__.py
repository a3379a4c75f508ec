"""Declarations that join source, schema, feature sets, model, labels and sinks."""
