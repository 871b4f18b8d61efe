"""A grammar beside a vocabulary: rules as flat arrays and tables, checked; the trie; the context of compiled code."""
