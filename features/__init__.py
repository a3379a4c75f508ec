"""Features declared once and computed by one compiled engine, online and offline; no Kafka, no clock."""
