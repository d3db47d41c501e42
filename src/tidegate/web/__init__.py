"""What is served over HTTP: metrics, health, readiness."""
