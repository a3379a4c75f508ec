"""Chaos: workers and brokers are killed, frozen and restarted under load, and readers outside judge what came out."""
