"""Operations on tensors: one op a file, each with its contract and its torch reference. Imports no other room."""
