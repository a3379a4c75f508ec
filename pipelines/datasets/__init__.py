"""Real data as streams of events, for the worked examples and their tests."""
