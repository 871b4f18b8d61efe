"""Constraints: the text of a schema, regex or choice becomes an automaton over bytes, and that becomes sets of tokens.

Import what you need from its module; nothing is loaded here, so that `errors` and `schema` stay light.
"""
