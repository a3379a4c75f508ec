"""The demo: the whole path on the real flights of 2013, from a broker in memory to a report."""
