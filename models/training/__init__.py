"""Training: replayed rows to an ONNX model with its lineage; torch and onnx are imported nowhere else.

::

    plan = TrainingPlan(train_until=..., choose_until=...)      # declared; needs no torch
    trained = train(table, pipeline.engine, plan, name="flights", created=now, revision="4f2c1ab")
    registry.register(trained.model, trained.manifest)
"""
