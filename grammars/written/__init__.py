"""Lark, GBNF and tags: text -> productions -> rules."""
