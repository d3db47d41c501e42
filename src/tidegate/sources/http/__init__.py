"""Records of HTTP APIs: requests, the client, and answers."""
