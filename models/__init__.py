"""Model runtimes, the registry, micro-batching policy, labels and training; no Kafka."""
