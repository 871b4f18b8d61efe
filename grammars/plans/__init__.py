"""From meanings of schemas to plans of values, and from plans to rules."""
