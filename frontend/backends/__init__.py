"""Where programs run: `local` in this process, `scripted` for tests."""
