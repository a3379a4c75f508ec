"""Everything that touches the outside: the Faust app, Kafka, delivery, health and the command line."""
