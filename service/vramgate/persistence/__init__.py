"""The only place that knows SQLAlchemy: tables, connections, named queries."""
