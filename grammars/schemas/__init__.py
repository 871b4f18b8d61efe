"""JSON Schema: a document, and what it means at each of its places."""
