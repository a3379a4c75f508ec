"""librdkafka itself, for what costs too much with a Python object and a call a record.

confluent-kafka brings the library and stays the client for everything that is not once per record.
"""
