"""What several suites share: making source files, configurations, and reading tables back."""
