"""Regular expressions and choices: text -> tree -> automaton over code points."""
