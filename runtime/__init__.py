"""Tokens in, tokens out: sessions, tree, pages, scheduler, executor, models, server.

Policy (pages, radix, scheduler, session) imports without torch; tensors begin behind the executor.
"""
