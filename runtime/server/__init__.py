"""The OpenAI-compatible face: HTTP in, one session a request, HTTP or server-sent events out."""
