"""Law 4: how much each state needs to finish, in tokens."""
