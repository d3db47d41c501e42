"""Speed, measured side by side: every benchmark runs its peers in the same process and prints ratios."""
